"""The store of campaigns: tables of the state file, the owners' files, and root's ledger of submitted tasks."""
