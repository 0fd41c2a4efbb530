"""What to mark, for how long, and why: the rules of `breakpoints.py` weighed with what is known of the session."""
