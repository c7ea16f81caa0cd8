"""gridbridge-poller: the process that polls clusters and manages transfers."""
