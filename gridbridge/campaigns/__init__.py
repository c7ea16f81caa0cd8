"""Campaigns: bags of tasks that fill the idle slots of many clusters."""
