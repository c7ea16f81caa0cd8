"""What rebalancing reads from files."""
