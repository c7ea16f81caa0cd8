"""Rounds that move waiting tasks between clusters."""
