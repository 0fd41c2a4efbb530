"""Caches of hosted models: one table of rules, and the few classes that follow them."""
