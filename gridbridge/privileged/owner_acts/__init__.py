"""The verbs of gridbridge-as-user for users' own programs and dataset replicas."""
