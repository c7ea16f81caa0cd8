"""What is done for campaigns: arrays at the clusters, and the files that people see."""
