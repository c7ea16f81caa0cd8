"""What people's own processes do about their datasets, for others and by other programs."""
