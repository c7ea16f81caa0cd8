"""Value classes of an elastic cluster, which grows and shrinks with its queue."""
