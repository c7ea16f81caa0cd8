"""The acts: each checks again what it depends on, acts, and records the result."""
