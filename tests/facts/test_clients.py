"""The table of clients: every row has a source, a date and a grade."""

from __future__ import annotations

from datetime import date

from contextkit.facts import load


def test_every_client_has_a_source_a_date_and_a_grade() -> None:
    rows = load.built_in_table("clients.toml")["clients"]
    assert len({row["name"] for row in rows}) == len(rows)
    for row in rows:
        assert row["source"] and isinstance(row["date"], date) and row["grade"] in load.CONFIDENCE_OF, row["name"]
        assert set(row.get("assumed", ())) <= row.keys(), row["name"]
        assert row["note"] or "assumed" not in row, row["name"]
        headers = [name for key, names in row.items() if key.endswith("_headers") for name in names]
        assert all(name == name.lower() for name in headers), row["name"]
        assert not headers or (row["header_source"] and row["header_grade"] in load.CONFIDENCE_OF), row["name"]
