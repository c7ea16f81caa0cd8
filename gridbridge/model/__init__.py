"""Frozen value types that all layers of gridbridge share."""
