"""Providers of machines: clouds, site programs, and power switches."""
