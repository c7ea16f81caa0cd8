"""What gridbridge-as-user does for campaigns: arrays, submitted and ended as their owners."""
