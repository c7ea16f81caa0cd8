"""gridbridge-runner: cycles over all campaigns."""
