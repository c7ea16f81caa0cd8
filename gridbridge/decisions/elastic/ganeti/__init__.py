"""Rules that power the nodes of a Ganeti cluster off or on, as Ganeti's hsqueeze does."""
