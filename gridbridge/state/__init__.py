"""The spool, the state file and the published files."""
