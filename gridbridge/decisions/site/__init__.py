"""What a site needs, and what is wrong with it."""
