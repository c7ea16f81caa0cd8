"""The numbered migrations; each is frozen once released and imports nothing of gridbridge."""
