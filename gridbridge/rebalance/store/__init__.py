"""Stored records of moves and datasets."""
