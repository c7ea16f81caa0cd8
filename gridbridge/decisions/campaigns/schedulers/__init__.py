"""Campaign schedulers, a module per policy: how many tasks of a campaign a cluster gets."""
