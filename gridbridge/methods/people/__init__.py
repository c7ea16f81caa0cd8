"""What root's helper does as a person besides jobs and arrays."""
