"""A recording said twice, with large results in the window and in files."""
