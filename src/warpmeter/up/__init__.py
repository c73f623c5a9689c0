"""Everything on one host with one command."""
