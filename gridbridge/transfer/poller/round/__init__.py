"""The steps of a round of gridbridge-poller."""
