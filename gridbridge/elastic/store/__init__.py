"""What the balancer keeps and publishes."""
