"""Values of rebalancing: hosts with copies of tasks, and the moves that are advised."""
