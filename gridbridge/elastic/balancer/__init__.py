"""gridbridge-balance: rounds that add, remove, rest and wake hosts."""
