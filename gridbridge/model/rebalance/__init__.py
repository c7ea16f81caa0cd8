"""Values of rebalancing: hosts, copies of tasks, datasets, planned moves."""
