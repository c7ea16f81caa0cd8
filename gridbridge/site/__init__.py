"""Commands over all capabilities: check, setup, status, why, explain, drain, replay, metrics."""
