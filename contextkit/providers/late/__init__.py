"""How a provider is told of tools that come late."""
