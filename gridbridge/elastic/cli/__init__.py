"""The commands gridbridge balance, squeeze and simulate."""
