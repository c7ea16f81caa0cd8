"""The transfer service: what it does in each round, and with whom."""
