"""Campaign schedulers: modules that decide how many tasks of a campaign a cluster gets."""
