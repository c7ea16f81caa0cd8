"""The campaign programs: what they do in each cycle, and with whom."""
