"""The adapter for Grid Engine 8.1.9 and its forks."""
