"""The numbers of all capabilities for Prometheus."""
