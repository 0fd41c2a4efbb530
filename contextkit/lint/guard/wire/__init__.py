"""Where bytes leave and come back."""
