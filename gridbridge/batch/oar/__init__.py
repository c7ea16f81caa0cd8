"""The adapter for OAR's commands, run locally or by ssh (measured: OAR 2.5.9)."""
