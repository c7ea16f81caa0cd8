"""Pictures: the one place that knows matplotlib."""
