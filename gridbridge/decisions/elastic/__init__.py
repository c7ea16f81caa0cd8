"""Rules that add, remove, power off and wake the nodes of an elastic cluster."""
