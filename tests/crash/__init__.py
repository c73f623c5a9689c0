"""Random faults on the real processes: `python -m tests.crash`, or `make crash MINUTES=60 SEED=7`."""
