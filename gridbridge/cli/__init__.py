"""The commands that people type; one error boundary in main."""
