"""What the programs of a site know: its set-up and its transfer host."""
