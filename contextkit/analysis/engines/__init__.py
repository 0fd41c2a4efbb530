"""Self-hosted engines: their caches by name (`named`), and their prompts in a ledger (`recorded`)."""

from contextkit.analysis.engines.named import ENGINES, Engine, engine

__all__ = ["ENGINES", "Engine", "engine"]
