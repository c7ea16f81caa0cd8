"""What is done to transfers, to local jobs and to grants."""
