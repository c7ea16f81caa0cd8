"""What remote jobs used, by their clusters' accounting files and by verdicts."""
