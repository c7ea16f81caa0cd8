"""gridbridge-nikita: deletes tasks that flood a cluster or are stuck there."""
