"""Campaign schedulers: how many tasks of a campaign a cluster gets, a module for each policy."""
