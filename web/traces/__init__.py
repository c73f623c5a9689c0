"""Traces: files in the trace store, and what their analysis left in the store."""
