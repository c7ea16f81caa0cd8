"""Background threads for slow calls, and back-off after failures."""
