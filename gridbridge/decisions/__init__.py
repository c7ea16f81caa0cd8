"""The decision library: pure functions from a snapshot and a policy to a plan."""
