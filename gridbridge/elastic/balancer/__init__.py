"""The rounds of gridbridge-balance, which add, remove, power off and wake hosts."""
