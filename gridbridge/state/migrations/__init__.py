"""Alembic's environment and the numbered migrations of the state file's schema."""
