"""vLLM's prefix cache: full blocks under chained keys, freed tail first (`block_cache`), and replays over ready ids
(`trace_cache`).
"""
