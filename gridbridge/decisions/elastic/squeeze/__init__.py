"""Which nodes may rest, and which have to work again (Ganeti's design "HSqueeze tool")."""
