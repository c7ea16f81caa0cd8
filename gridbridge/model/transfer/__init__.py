"""Values of transfers: claims, guards, mappings, plans and their settings."""
