"""What is done to transfers, local jobs and remote jobs."""
