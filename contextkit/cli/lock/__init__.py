"""`contextkit lock`."""
