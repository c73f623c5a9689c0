"""Alerts: rules are evaluated in one place, by the scheduler that is elected, and what changes is published."""
