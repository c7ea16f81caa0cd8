"""Which copies of tasks are to be moved: host rebalancing, job rebalancing, and failed hosts."""
