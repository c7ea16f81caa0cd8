"""What is kept of moves and datasets."""
