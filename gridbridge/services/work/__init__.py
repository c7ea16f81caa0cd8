"""Threads that do slow acts, and how long a vain one waits."""
