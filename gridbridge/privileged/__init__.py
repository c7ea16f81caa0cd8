"""The programs that run as root: gridbridge-as-user and gridbridge-as-root."""
