"""The programs: each gathers, decides and applies."""
