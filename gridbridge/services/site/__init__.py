"""The programs that set a site up and look after it."""
