"""One module a program: gather, decide, apply."""
