"""Batch systems: one protocol, an adapter a system."""
