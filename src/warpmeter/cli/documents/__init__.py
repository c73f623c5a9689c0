"""Make the pages of `docs/reference`: `python -m warpmeter.cli.documents` (`make docs`)."""
