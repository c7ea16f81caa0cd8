"""gridbridge: independently run Grid Engine and OAR clusters share work."""

__version__ = "1.0.0"
