"""Alembic runs this file: the steps work in the connection that database/file.py has open."""

from alembic import context

from gridbridge.state.database.schema import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
