"""Values of campaigns: what owners ask for, and what became of each task."""
