"""State on disk: the spool, the state file and the published files."""
