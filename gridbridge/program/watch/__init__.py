"""Query clusters regularly, and receive pushed job ends."""
