"""Rules of campaigns: which tasks go to which cluster, and what their ends mean."""
