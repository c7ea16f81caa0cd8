"""Guards of jobs that are away: missing ones, late ones, and copies of them."""
