"""The tables of rebalancing."""
