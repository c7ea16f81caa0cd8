"""Entry points of the hot programs; they import almost nothing."""
