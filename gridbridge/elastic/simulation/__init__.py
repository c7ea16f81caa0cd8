"""Replays of what a cluster ran, by other policies."""
