"""What a caller sets once for a conversation, and each wire words its own way."""
