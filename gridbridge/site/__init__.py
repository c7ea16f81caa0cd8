"""The commands gridbridge check, setup, status, why, explain, drain, replay and metrics."""
