"""Policy demand: waiting tasks fill the free slots, and nodes are added for tasks without a free slot."""
