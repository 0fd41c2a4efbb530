"""`docs/reference/caches.md` says of hosted providers what the table of rules says."""

from __future__ import annotations

from pathlib import Path

from contextkit.cache.hosted.rules import HOSTED, Rule

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "caches.md"
COLUMNS = (
    "row",
    "kind",
    "min",
    "step",
    "lifetime, s",
    "may be asked for",
    "writes billed",
    "source",
    "**assumed**",
)
HEAD = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|\n"


def row(name: str, rule: Rule) -> str:
    asked = ", ".join(map(str, rule.ttls_seconds)) or "–"
    unsure = ", ".join(f"`{cell}`" for cell in sorted(rule.unsure)) or "–"
    billed = "yes" if rule.bills_writes else "no"
    sizes = (f"{size:,}" for size in (rule.min_tokens, rule.granularity_tokens, rule.ttl_seconds))
    cells = (f"`{name}`", rule.kind, *sizes, asked, billed, f"[page]({rule.source})", unsure)
    return f"| {' | '.join(cells)} |\n"


def test_the_table_of_hosted_providers_is_that_of_the_code() -> None:
    table = HEAD + "".join(row(name, rule) for name, rule in HOSTED.items())
    assert table in PAGE.read_text(encoding="utf-8"), f"put this into {PAGE.name}:\n{table}"


def test_every_cache_of_the_package_has_rules_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    caches = {"breakpoint_cache", "implicit_cache", "unit_cache", "vLLM", "SGLang", "llama.cpp", "LMCache"}
    assert {name for name in caches if name not in page} == set()
