"""What is measured, a module a topic; `schemas/metrics.py` makes the one table of it."""
