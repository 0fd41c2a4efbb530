"""Reference models of self-hosted engines' prefix caches, block traces, and replays of recordings through them."""
