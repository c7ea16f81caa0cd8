"""What is kept of campaigns: tables of the state file, people's files, root's ledger."""
