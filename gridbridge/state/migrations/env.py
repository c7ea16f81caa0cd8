"""Alembic runs this file: migrations work in the connection that database/file.py has open."""

from importlib import import_module
from pkgutil import walk_packages

from alembic import context

from gridbridge.state.database.columns import METADATA

STORES = ("state.database", "transfer.store", "campaigns.store", "elastic.store", "rebalance.store")
for name in STORES:
    package = import_module(f"gridbridge.{name}")
    for module in walk_packages(package.__path__, f"{package.__name__}."):
        import_module(module.name)  # METADATA has the tables of those that are loaded
context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
