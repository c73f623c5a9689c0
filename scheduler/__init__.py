"""Captures of running jobs: who is asked, when they start, and that each of them ends with a word."""
