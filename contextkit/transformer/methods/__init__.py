"""Methods of the field, one a file: what each keeps exact, and where it is approximate, how approximate."""
