"""Rebalancing rules: which copies of tasks and datasets move, and to which hosts."""
