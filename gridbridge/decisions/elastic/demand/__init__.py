"""Policy demand: waiting tasks fill the free capacity, and nodes are added for the rest."""
