"""Values of rebalancing: hosts with copies of tasks, datasets, and planned moves."""
