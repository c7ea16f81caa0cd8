"""Which tasks of which campaign go where, and what their ends mean."""
