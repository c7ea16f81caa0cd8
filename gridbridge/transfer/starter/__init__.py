"""The programs of a transfer queue: the starter's steps, the methods, the load sensor."""
