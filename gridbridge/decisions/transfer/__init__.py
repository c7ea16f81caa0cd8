"""Decide about transfers, transfer queues, and what keeps local tasks from starting."""
