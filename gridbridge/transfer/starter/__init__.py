"""The programs of a transfer queue: starter, methods and load sensor."""
