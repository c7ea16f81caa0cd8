"""The parts of the transfer service in groups, each made of those before it."""
