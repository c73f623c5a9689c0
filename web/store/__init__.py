"""What the API asks the store, and how the answers are told."""
