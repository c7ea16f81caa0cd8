"""Rules of campaigns: the cluster of each task, and the outcome of each ended task."""
