"""A transfer, and everything that belongs to it."""
