"""What can go wrong in the lab, as the user should read it."""


class LabError(Exception):
    """A lab command cannot do what was asked; the text says why and what to do."""


class UsageError(LabError):
    """The command line names something that does not exist (exit status 2)."""
