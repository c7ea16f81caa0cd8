"""Files and tables that the balancer stores and publishes."""
