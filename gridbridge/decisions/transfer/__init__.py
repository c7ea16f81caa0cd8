"""What to do about jobs that run elsewhere, their guards and their queues."""
