"""Decide about transfers of jobs to remote clusters, guards and queues."""
