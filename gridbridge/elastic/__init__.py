"""A Grid Engine or OAR cluster that grows and shrinks with its queue."""
