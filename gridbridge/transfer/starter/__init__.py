"""The hot programs: one step of a transfer, the queue's methods, the load sensor."""
