"""Datasets and their replicas in storage areas."""
