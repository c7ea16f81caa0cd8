"""Which nodes of a Ganeti cluster are switched off or on, as hsqueeze decides it."""
