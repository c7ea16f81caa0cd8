"""Threads that do slow acts, and how long one that failed is left alone."""
