"""Sends arrays, and goes on with those that an earlier cycle began."""
