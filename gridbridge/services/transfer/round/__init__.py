"""One round of the service: its order, what comes, the acts, the upkeep, what is shown."""
