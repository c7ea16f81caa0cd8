"""gridbridge rebalance and gridbridge data."""
