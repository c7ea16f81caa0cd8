"""Connections by ssh that stay open; paramiko is known here alone."""
