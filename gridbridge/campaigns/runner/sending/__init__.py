"""How arrays of tasks are handed to root's helper, and what becomes of them."""
