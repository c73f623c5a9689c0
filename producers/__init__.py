"""The host agent: sources, job detection and attribution, the shipper and its spool."""
