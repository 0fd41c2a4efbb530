"""What a provider refuses, as tables."""
