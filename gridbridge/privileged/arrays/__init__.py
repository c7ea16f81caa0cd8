"""The verbs of gridbridge-as-user for a campaign's arrays of tasks."""
