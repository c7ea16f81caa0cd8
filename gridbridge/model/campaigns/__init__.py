"""Bags of tasks over many clusters: what is asked for, and what became of each task."""
