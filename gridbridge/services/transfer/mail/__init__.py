"""The messages of people's processes, and how far the service believes them."""
