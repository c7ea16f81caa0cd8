"""Values that describe a site: configuration, set-up, findings and hosts."""
