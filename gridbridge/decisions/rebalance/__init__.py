"""Rebalancing rules: which copies of tasks move, for hosts, jobs, datasets and failed hosts."""
