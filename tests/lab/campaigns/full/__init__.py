"""Where a cluster is full: what makes way there, waits, is wiped or is moved."""
