"""What the grid commands do, apart from their options and their output."""
