"""Panels: each fetches from the API in the browser, with what the address holds, and draws it."""
