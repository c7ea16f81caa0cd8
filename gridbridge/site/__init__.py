"""What speaks of all capabilities: setup, check, status, why, explain, metrics."""
