"""The commands by which people look and act, from what the service shows."""
