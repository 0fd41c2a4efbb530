"""What every adapter is made of, whatever its wire: how it answers, and how it words parts, tools and replies."""
