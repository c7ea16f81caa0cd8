"""Files that tell what a cluster ran, to run it again."""
