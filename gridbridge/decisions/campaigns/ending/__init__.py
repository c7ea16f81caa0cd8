"""How attempts end: what that means, and how it is noted."""
