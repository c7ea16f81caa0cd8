"""What is done for campaigns at clusters and for people: arrays, deletions, notifications."""
