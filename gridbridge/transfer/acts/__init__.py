"""The acts on transfers, local jobs and remote jobs."""
