"""The state file: the service's records of transfers, campaigns and decisions.

Only the service account opens it. SQL appears only in modules that define tables. Each group of
tables is a module with a class over StateFile; a new group adds a module and a migration.
"""

from gridbridge.state.database.transaction import StateFile

__all__ = ["StateFile"]
