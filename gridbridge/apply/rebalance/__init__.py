"""How copies of tasks come to other hosts."""
