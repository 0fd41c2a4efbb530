"""How each provider is told what may be called now: the tables, and what a conversation keeps of it."""
