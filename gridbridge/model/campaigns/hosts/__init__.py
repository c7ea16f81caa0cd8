"""What campaigns ask of hosts."""
