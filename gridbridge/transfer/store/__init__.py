"""Database tables and shared files of transfers."""
