"""The commands qstat_remote, qacct_remote, qalter_remote and qdel_remote."""
