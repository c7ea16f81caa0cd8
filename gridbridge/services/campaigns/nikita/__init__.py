"""Nikita: what deletes tasks of campaigns that wait or run where they should not."""
