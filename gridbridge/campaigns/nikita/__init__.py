"""gridbridge-nikita: deletes campaign tasks that flood a cluster or are stuck at a cluster."""
