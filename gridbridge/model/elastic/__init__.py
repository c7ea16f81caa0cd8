"""What a cluster that grows and shrinks is made of."""
