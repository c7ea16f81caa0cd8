"""The transfer service: its parts, and what they do in each round."""
