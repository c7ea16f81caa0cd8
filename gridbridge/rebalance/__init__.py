"""Waiting tasks and staged data that lie in the wrong place are moved."""
