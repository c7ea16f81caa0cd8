"""gridbridge-poller: the service that queries clusters and manages transfers."""
