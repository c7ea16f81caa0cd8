"""Alembic's environment and the numbered steps of the state file's schema."""
