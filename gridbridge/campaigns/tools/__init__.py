"""What the grid commands do, without their options and output."""
