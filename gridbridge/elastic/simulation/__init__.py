"""Replays of a cluster's recorded tasks by other policies."""
