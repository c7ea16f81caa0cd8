"""What the balancer keeps."""
