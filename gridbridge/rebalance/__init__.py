"""Rebalancing: moves waiting tasks between clusters, and replicas between storage areas."""
