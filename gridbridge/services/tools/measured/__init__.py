"""What is measured of all capabilities, from published files alone."""
