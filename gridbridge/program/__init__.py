"""Shared parts of all service programs: cycle, journal, configuration, log."""
