"""When a cluster grows, and which of its nodes it gives back."""
