"""The log of many workers: in Postgres, appended to by whoever knows its last entry (extra `postgres`)."""

from __future__ import annotations

from contextkit.log.postgres.connection import Pool
from contextkit.log.postgres.storage import PostgresStorage, create, is_url

__all__ = ["Pool", "PostgresStorage", "create", "is_url"]
