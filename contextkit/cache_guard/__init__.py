"""The guard of `pytest --cache-guard`: runs each test that calls a model again under another clock and another hash seed,
and fails it where its prompts lose what a cache holds.
"""
