"""What the API knows of captures, and what it asks agents about those who could be captured."""
