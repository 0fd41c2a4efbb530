"""What each lifetime costs a token, and how much of a prompt deserves the long one."""
