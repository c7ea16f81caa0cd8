"""What the service shows people: the published files."""
