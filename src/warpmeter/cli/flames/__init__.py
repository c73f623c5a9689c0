"""What `warpmeter flame` asks the store for, and the files that it writes."""
