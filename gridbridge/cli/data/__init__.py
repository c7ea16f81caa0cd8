"""gridbridge data: a person's datasets and their replicas."""
