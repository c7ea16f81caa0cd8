"""Threads that do slow acts, and the pause after one that failed."""
