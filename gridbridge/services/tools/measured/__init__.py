"""What is measured of transfers, campaigns and elastic clusters, from published files alone."""
