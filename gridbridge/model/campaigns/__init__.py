"""Values of campaigns: requests of owners, and the states and outcomes of tasks."""
