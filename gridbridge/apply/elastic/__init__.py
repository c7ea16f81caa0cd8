"""Looking at the cluster that grows and shrinks."""
