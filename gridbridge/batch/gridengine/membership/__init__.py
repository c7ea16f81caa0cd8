"""What makes a machine a host of a cell, and takes it out again."""
