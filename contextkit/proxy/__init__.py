"""A pass-through to a provider: any client, any path, every byte unchanged, every model call told to an observer."""
