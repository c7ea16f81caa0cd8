"""Thin wrappers around the operating system: processes, files, ssh, locks and clocks."""
