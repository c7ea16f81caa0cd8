"""A replay of what a cluster ran, by other rules than it had then."""
