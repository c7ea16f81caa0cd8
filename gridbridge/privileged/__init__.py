"""All that root runs: gridbridge-as-user and gridbridge-as-root."""
