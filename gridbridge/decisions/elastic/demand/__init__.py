"""Policy demand: what waits is packed into what is there, and nodes are added for the rest."""
