"""Frozen values that every layer speaks in."""
