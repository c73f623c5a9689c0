"""The API and the pages over the store: people look before they query."""
