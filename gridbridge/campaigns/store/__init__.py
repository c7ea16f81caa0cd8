"""The store of campaigns: tables in the state file, the owners' files, and root's ledger."""
