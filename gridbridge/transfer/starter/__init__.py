"""The programs of a transfer queue: starter, suspend, resume and terminate methods, and load sensor."""
