"""Whose cache bills a request: a hosted provider's (`hosted`), or a self-hosted engine's (`selfhosted`) by its tokens
(`rendering`).
"""
