"""vLLM's prefix cache: full blocks under chained keys, freed tail first (`block_cache`), and the same over ready ids (`run_cache`)."""
