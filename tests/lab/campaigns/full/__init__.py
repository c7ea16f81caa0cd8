"""Campaigns at a full cluster: tasks are preempted, wait, are wiped, or are moved."""
