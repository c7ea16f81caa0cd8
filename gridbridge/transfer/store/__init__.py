"""What is kept of transfers."""
