"""The steps: each is frozen once released, and imports nothing of ours."""
