"""gridbridge-nikita: deletes campaign tasks that flood a cluster or are stuck in it."""
