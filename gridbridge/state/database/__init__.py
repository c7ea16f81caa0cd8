"""The state file: what the service knows about transfers, and why it did what it did.

Only the service account opens it. Nothing outside this package knows SQL.
"""

from gridbridge.state.database.store import Database

__all__ = ["Database"]
