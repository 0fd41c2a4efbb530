"""Chunks that sink through tiers of memory: GPU, host, disk, remote."""
