"""Tasks that owners add to their campaigns."""
