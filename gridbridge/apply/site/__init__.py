"""Changes of a site's set-up."""
