"""Rebalancing rules: which copies move, for hosts, jobs and datasets."""
