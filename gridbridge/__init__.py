"""gridbridge: independently run Grid Engine and OAR clusters share work."""

__version__ = "0.1.0"
