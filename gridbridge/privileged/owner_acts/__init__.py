"""gridbridge-as-user for a person's own programs and replicas."""
