"""Reads and checks gridbridge.toml, which administrators write."""
