"""What becomes of jobs that run elsewhere, of their guards and of their queues."""
