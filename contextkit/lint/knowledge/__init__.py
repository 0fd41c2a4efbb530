"""What is known of Python's library, SDKs and frameworks: sources, sanitizers, requests, usage schemas, one TOML file each.

The format is described in docs/lint.md; a project adds its own files with `knowledge = ["lint.toml"]` in its settings.
"""
