"""The outside world, kept thin: processes, files, clocks."""
