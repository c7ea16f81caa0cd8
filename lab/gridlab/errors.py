"""Errors of the lab, with the text that the user reads."""


class LabError(Exception):
    """A failed lab command; the text gives the reason and the remedy."""


class UsageError(LabError):
    """An unknown name on the command line (exit status 2)."""
