"""One round of the service: its order, what comes in, the acts, the upkeep, the publication."""
