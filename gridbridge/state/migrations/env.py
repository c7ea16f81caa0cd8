"""Alembic's script: migrates the state file within the connection that state_file.py has opened."""

from importlib import import_module
from pkgutil import iter_modules

from alembic import context

from gridbridge.state.column_types import METADATA

STORES = ("state", "transfer", "campaigns.store", "elastic", "rebalance")
for name in STORES:
    package = import_module(f"gridbridge.{name}")
    for module in iter_modules(package.__path__, f"{package.__name__}."):
        import_module(module.name)  # METADATA collects the tables of imported modules
context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
