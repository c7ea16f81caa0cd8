"""Reads and checks what administrators write in gridbridge.toml."""
