"""What describes a site: its set-up and its transfer host."""
