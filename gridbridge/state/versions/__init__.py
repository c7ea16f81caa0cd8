"""The numbered migrations of the state file's schema, in Alembic's form."""
