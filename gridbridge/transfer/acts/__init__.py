"""The service's acts on transfers, local jobs and remote jobs."""
