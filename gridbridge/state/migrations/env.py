"""Alembic runs this file: migrations work in the connection that database/file.py has open."""

from importlib import import_module
from pkgutil import walk_packages

from alembic import context

from gridbridge.state import database
from gridbridge.state.database.columns import METADATA

for module in walk_packages(database.__path__, f"{database.__name__}."):
    import_module(module.name)  # METADATA has the tables of those that are loaded
context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
