"""Alerts, as this process knows them: what the store has, and what was said of them here a moment ago."""
