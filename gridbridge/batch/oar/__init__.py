"""The adapter for OAR's command line, run locally or by ssh; measured with OAR 2.5.9."""
