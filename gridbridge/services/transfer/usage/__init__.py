"""What remote jobs used, from their clusters' accounting files and from verdicts."""
