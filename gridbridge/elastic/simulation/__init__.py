"""Replays a cluster's recorded tasks under several balancer policies."""
