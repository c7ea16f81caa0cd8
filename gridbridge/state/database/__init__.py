"""The state file: what the service knows about transfers, and its decisions.

Only the service account opens it. Nothing outside this package knows SQL. A group of tables is a
module with a class over the one Database; a new capability adds a module and a migration.
"""

from gridbridge.state.database.transaction import StateFile

__all__ = ["StateFile"]
