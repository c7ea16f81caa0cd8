"""What is kept of a cluster that grows and shrinks."""
