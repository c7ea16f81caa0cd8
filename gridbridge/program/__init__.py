"""What all programs that act share: cycle, journal, configuration in force, log."""
