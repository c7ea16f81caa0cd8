"""The commands gridbridge rebalance and gridbridge data."""
