"""What a replay decides by besides the policies of a balancer, and when it has to."""
