"""The program that makes a cluster grow and shrink."""
