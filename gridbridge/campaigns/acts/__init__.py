"""Acts of campaigns outside the service: array commands, stress and mail programs."""
