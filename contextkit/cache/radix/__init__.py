"""SGLang's radix cache: the tree (`tree`), in what order it forgets (`policies`), and both as a prefix cache
(`radix_cache`).
"""
