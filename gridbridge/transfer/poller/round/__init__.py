"""The steps of one round of the poller."""
