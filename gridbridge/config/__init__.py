"""Reads what administrators and users write: gridbridge.toml, and the JDL of campaigns."""
