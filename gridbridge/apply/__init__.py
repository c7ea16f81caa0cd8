"""One module a capability: re-check, act, record."""
