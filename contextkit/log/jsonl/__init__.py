"""How a log is written in a file: one line an entry, chained by digests, one writer at a time."""
