"""Persistent ssh connections; the only folder that imports paramiko."""
