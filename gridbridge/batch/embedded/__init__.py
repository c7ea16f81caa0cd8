"""An embedded cluster: a small batch system of local processes in a folder."""
