"""The embedded cluster: a small batch system in a folder, whose jobs are local processes."""
