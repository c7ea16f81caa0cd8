"""Asks the clusters, and listens to them."""
