"""What is asked of the cell, and done to hosts and machines."""
