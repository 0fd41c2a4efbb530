"""What the local provider needs of each endpoint: refusals, rendered responses and stored objects."""
