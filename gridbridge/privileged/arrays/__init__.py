"""gridbridge-as-user for campaigns: arrays of tasks, as their owner."""
