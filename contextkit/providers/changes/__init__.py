"""How what changed while a conversation runs is told in each provider's words."""
