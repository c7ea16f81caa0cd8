"""What `gridsub` does with a campaign before it is stored: reads, admits or only checks it."""
