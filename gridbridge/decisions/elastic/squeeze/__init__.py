"""Which of a site's own hosts may rest, and which have to work again."""
