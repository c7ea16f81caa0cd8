"""gridbridge balance, squeeze and simulate."""
