"""What a transfer is, and all that it carries."""
