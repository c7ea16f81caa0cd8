"""gridbridge-runner: runs the scheduling cycles of all campaigns."""
