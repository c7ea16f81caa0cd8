"""What the commands about the balancer and the squeeze do."""
