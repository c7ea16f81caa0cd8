"""Queries of the balanced cell, and acts on hosts and machines."""
