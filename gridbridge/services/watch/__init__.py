"""What asks the clusters, and what hears from them."""
