"""Reports by themselves: what is due is rendered once, kept, and delivered to each target until it is acknowledged."""
