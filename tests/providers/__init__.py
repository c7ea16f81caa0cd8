"""Providers of machines, each against what it really talks to."""
