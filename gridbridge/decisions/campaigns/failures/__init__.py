"""What goes wrong with campaigns: events, what they close, and what is tried again."""
