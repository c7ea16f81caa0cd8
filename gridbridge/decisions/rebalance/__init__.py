"""Rebalancing rules: which tasks and replicas move, and to which hosts."""
