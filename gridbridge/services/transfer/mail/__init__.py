"""What people's processes tell the service, and how far it is believed."""
