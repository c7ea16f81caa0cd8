"""Values of rebalancing: hosts, tasks, datasets, replicas and planned moves."""
