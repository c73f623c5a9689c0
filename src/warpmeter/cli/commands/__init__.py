"""The commands, by what one wants; each declares its options and calls the part that does the work."""
