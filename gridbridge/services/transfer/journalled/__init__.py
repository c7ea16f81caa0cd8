"""What the service decided, kept with the rows that decided it, to be decided again."""
