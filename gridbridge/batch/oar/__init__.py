"""OAR by its command line, run here or by ssh; measured with 2.5.9."""
