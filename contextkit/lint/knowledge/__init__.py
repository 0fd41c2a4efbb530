"""What is known of libraries: tables in TOML, one file per SDK or framework, read by `contextkit.lint.source.knowledge`.

`python.toml` is the standard library and groups of kinds, `recall.toml` and `mcp.toml` are stores and servers,
`generic.toml` wrappers that projects write for themselves, `names.toml` what names alone say. The fields of each table
are described in docs/guides/lint.md under "Add your own", those of names.toml at its top. A field `source` says where a fact
stands, `date` when it was read there.
"""
