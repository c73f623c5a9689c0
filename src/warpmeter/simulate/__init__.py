"""A fleet that does not exist: N hosts of G GPUs with jobs, phases, idle time and failures, as their agents tell it."""
