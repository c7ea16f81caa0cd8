"""Tasks that make way for a local request because of what they hold, not of their slots."""
