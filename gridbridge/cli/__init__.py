"""What all commands share: output, options, plots, and the error boundary."""
