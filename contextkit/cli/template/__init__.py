"""`contextkit template`: read a conversation, check it under a chat template, print what was found."""
