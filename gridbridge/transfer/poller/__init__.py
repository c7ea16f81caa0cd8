"""gridbridge-poller: the one process that watches clusters and transfers."""
