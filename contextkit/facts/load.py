"""Reads files of facts: `[[models]]`, `[[prices]]`, `[[service_tiers]]`, `[[parameters]]` and `[[rules]]` rows in TOML,
checked key by key.

Takes the name of a file, gives its rows; knows which files a user named: on the command line, in the environment
variable CONTEXTKIT_MODELS, or in `[tool.contextkit] models = "…"` of the nearest pyproject.toml. Knows nothing of what
rows mean.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any

from contextkit.errors import UsageError

VARIABLE = "CONTEXTKIT_MODELS"
"""Environment variable that names a file of facts."""
GRADES = ("DOC", "SDK", "ISSUE", "MEASURED", "UNSURE", "ASSUMED")
"""Confidence of a row, in its detailed form: documented, read in an SDK, reported in an issue, measured, inferred,
assumed."""
GRADE_OF = {
    "DOC": "documented",
    "SDK": "documented",
    "ISSUE": "measured",
    "MEASURED": "measured",
    "UNSURE": "assumed",
    "ASSUMED": "assumed",
}
"""Confidence → grade."""
CONFIDENCE_OF = {"documented": "DOC", "measured": "MEASURED", "assumed": "UNSURE"}
"""Grade of a row → its confidence."""


@dataclass(frozen=True, slots=True)
class FactRow:
    """One row of a file."""

    where: str
    """File, row and line, for messages: `models.toml: [[models]] row 2 (line 14)`."""
    fields: Mapping[str, Any]
    """Its keys; of the right types."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The rows of a file, in their order."""

    models: tuple[FactRow, ...] = ()
    prices: tuple[FactRow, ...] = ()
    service_tiers: tuple[FactRow, ...] = ()
    parameters: tuple[FactRow, ...] = ()
    rules: tuple[FactRow, ...] = ()


def read_facts(path: str | os.PathLike[str]) -> Facts:
    """Read a file of facts. Raises `UsageError` that names file, row, line and key for what is not as it must be."""
    import tomllib

    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
        whole = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file}: not TOML: {error}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: not UTF-8 text (byte {error.start:,})") from None
    except OSError as error:
        raise UsageError(
            f"{file}: {error.strerror or error}; a file of [[models]] and [[prices]] rows is expected"
        ) from None
    _check_keys(str(file), whole, _TABLES)
    return Facts(**{table: tuple(_rows(file, text, table, whole.get(table, []))) for table in _TABLES})


def _rows(file: Path, text: str, table: str, rows: Any) -> list[FactRow]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UsageError(f"{file}: {table} must be rows, each below a line [[{table}]]")
    header = re.compile(rf"^[ \t]*\[\[[ \t]*\"?{table}\"?[ \t]*\]\]", re.MULTILINE)
    lines = [text.count("\n", 0, match.start()) + 1 for match in header.finditer(text)]
    match = []
    for index, row in enumerate(rows):
        line = f" (line {lines[index]})" if len(lines) == len(rows) else ""
        where = f"{file}: [[{table}]] row {index + 1}{line}"
        match.append(FactRow(where, checked_row(where, table, row)))
    return match


def checked_row(where: str, table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row with every value checked. Raises `UsageError` that names `where`, the key and what is allowed."""
    kinds, needed = _TABLES[table]
    _check_keys(where, row, kinds)
    missing = [key for key in needed if key not in row]
    if missing:
        raise UsageError(f"{where}: {missing[0]!r} is missing; a row needs {', '.join(needed)}")
    fields = {key: kinds[key](f"{where}: {key}", value) for key, value in row.items()}
    if "grade" in fields:
        fields.setdefault("confidence", CONFIDENCE_OF[fields["grade"]])
    if "read_on" in fields:
        fields.setdefault("date", fields["read_on"])
    return fields


def _check_keys(where: str, row: Mapping[str, Any], allowed: Mapping[str, Any]) -> None:
    for key in row:
        if key not in allowed:
            import difflib

            close = difflib.get_close_matches(key, allowed, n=1)
            near = f" (did you mean {close[0]!r}?)" if close else ""
            raise UsageError(f"{where}: unknown key {key!r}{near}; allowed are {', '.join(allowed)}")


# Kinds of values
# -----------------------------------------------------------------------------------------------------------

Kind = Callable[[str, Any], Any]
"""Takes where a value stands and the value, gives it checked."""


def _wrong(where: str, what: str, value: Any) -> UsageError:
    return UsageError(f"{where} must be {what}, not {value!r}")


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(where, "a text", value)
    return value


def _name(where: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _wrong(where, "a text that is not empty", value)
    return value


def _one_of(*allowed: str) -> Kind:
    def check(where: str, value: Any) -> str:
        if value not in allowed or not isinstance(value, str):
            raise _wrong(where, f"one of {', '.join(allowed)}", value)
        return value

    return check


def _flag(where: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(where, "true or false", value)
    return value


def _tokens(where: str, value: Any) -> int:
    if type(value) is not int or value < 0:
        raise _wrong(where, "a whole number of tokens, 0 or more", value)
    return value


def _seconds(where: str, value: Any) -> int:
    if type(value) is not int or value < 1:
        raise _wrong(where, "a whole number of seconds, 1 or more", value)
    return value


def _lifetimes(where: str, value: Any) -> tuple[int, ...]:
    is_list = isinstance(value, list) and value and all(type(one) is int and one > 0 for one in value)
    if not is_list or sorted(set(value)) != value:
        raise _wrong(where, "a list of seconds, the shortest first", value)
    return tuple(value)


def _positive(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value <= 0:
        raise _wrong(where, "a number above 0", value)
    return float(value)


def _price(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
        raise _wrong(where, "dollars for a million tokens, 0 or more", value)
    return float(value)


def _date(where: str, value: Any) -> str:
    """A date of TOML, or a text of that form; empty for none."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    try:
        return date.fromisoformat(value).isoformat() if value != "" else ""
    except (TypeError, ValueError):
        raise _wrong(where, "a date such as 2026-12-01", value) from None


def _prices_by_ttl(where: str, value: Any) -> dict[int, float]:
    if not isinstance(value, dict) or not value or not all(re.fullmatch(r"\d{1,9}", key) for key in value):
        raise _wrong(where, "a table of seconds and prices, such as { 300 = 2.5, 3600 = 4.0 }", value)
    return {int(key): _price(f"{where}.{key}", price) for key, price in value.items()}


def _tiers(where: str, value: Any) -> tuple[dict[str, Any], ...]:
    if not isinstance(value, list) or not all(isinstance(tier, dict) for tier in value):
        raise _wrong(where, "a list of tables, such as [{ above = 272000, input = 4.0, output = 15.0 }]", value)
    rows = []
    for index, tier in enumerate(value):
        place = f"{where}[{index}]"
        _check_keys(place, tier, _TIER)
        if "above" not in tier:
            raise UsageError(f"{place}: 'above' is missing: how many prompt tokens the tier begins behind")
        rows.append({key: _TIER[key](f"{place}.{key}", one) for key, one in tier.items()})
    return tuple(rows)


def _patterns(where: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(one, str) and one for one in value):
        raise _wrong(where, 'a list of names, such as ["gpt-5*", "o3"]', value)
    return tuple(value)


def _columns(where: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one in _MODEL for one in value):
        raise _wrong(where, 'a list of columns, such as ["min_tokens"]', value)
    return tuple(value)


def _endpoint(where: str, value: Any) -> str:
    endpoints = built_in_table("parameters.toml")["endpoints"]
    return str(_one_of(*endpoints)(where, value))


def _rule_name(where: str, value: Any) -> str:
    names = dict.fromkeys(row["name"] for row in built_in_table("rules.toml")["rules"])
    return str(_one_of(*names)(where, value))


_RATES: dict[str, Kind] = {
    "input": _price,
    "cache_read": _price,
    "cache_write": _price,
    "cache_write_1h": _price,
    "cache_write_by_ttl": _prices_by_ttl,
    "output": _price,
}
"""Dollars for a million tokens. `cache_write` is for the short lifetime, `cache_write_1h` for the long one (OpenAI: 12
hours)."""
_TIER: dict[str, Kind] = {"above": _tokens, **_RATES}
_ORIGIN: dict[str, Kind] = {
    "source": _text,
    "date": _date,
    "grade": _one_of(*CONFIDENCE_OF),
    "note": _text,
    "read_on": _date,
    "confidence": _one_of(*GRADES),
}
"""Where a row comes from. `read_on` is the former name of `date`, `confidence` a finer form of `grade`."""
_MODEL: dict[str, Kind] = {
    "name": _name,
    "like": _name,
    "provider": _name,
    "cache": _one_of("breakpoints", "implicit", "billed", "units"),
    "min_tokens": _tokens,
    "granularity_tokens": _positive,
    "ttls_seconds": _lifetimes,
    "default_ttl_seconds": _seconds,
    "window_tokens": _tokens,
    "max_output_tokens": _tokens,
    "tokenizer": _one_of("o200k_base", "bytes"),
    "bytes_per_token": _positive,
    "accepts_prefill": _flag,
    "accepts_forced_choice": _flag,
    "accepts_mid_system": _flag,
    "strips_thinking": _flag,
    "binds_thinking": _flag,
    "accepts_message_effort": _flag,
    "accepts_custom_tools": _flag,
    "accepts_tool_search": _flag,
    "tool_prompt_tokens": _tokens,
    "retired_on": _date,
    "assumed": _columns,
    **_ORIGIN,
}
_MODEL["granularity_tokens"] = lambda where, value: max(1, _tokens(where, value))
_TABLES: dict[str, tuple[dict[str, Kind], tuple[str, ...]]] = {
    "models": (_MODEL, ("name",)),
    "prices": (
        {
            "provider": _name,
            "model": _name,
            **_RATES,
            "valid_from": _date,
            "tiers": _tiers,
            "corrects": _flag,
            **_ORIGIN,
        },
        ("provider", "model", "input", "output"),
    ),
    "service_tiers": (
        {"provider": _name, "tier": _name, "models": _patterns, "factor": _positive, **_ORIGIN},
        ("provider", "tier", "factor"),
    ),
    "parameters": (
        {
            "endpoint": _endpoint,
            "field": _name,
            "level": _one_of("tools", "system", "messages", "neutral"),
            **_ORIGIN,
        },
        ("field", "level"),
    ),
    "rules": (
        {"name": _rule_name, "provider": _name, "holds": _flag, **_ORIGIN},
        ("name", "holds"),
    ),
}
"""Table → its keys and what each may be, and the keys a row needs."""


def client(name: str) -> Mapping[str, Any]:
    """Return what `clients.toml` says of an agent client.

    >>> client("codex")["metadata_field"]
    'client_metadata'
    """
    row: Mapping[str, Any] = next(row for row in built_in_table("clients.toml")["clients"] if row["name"] == name)
    return row


@lru_cache(maxsize=1)
def _providers() -> Mapping[str, Mapping[str, Any]]:
    """Name of a provider, its id among them → its row of `providers.toml`."""
    rows = built_in_table("providers.toml")["providers"]
    return {name: row for row in rows for name in (row["id"], *row["names"])}


def provider_id(name: str) -> str:
    """Return the id that prices are looked up under, for any name of a provider.

    A name that no row has is its own id, but for what an SDK puts behind a dot: `xai.chat`.

    >>> provider_id("openai-codex"), provider_id("Amazon_Bedrock"), provider_id("xai.chat"), provider_id("our-host")
    ('openai', 'aws', 'x-ai', 'our-host')
    """
    key = re.sub(r"[_ ]", "-", name.strip().lower())
    row = _providers().get(key) or _providers().get(_SDK_SUFFIX.sub("", key))
    return key if row is None else str(row["id"])


_SDK_SUFFIX = re.compile(r"\.(?:chat|responses|messages|completion|embedding|image|speech|transcription)$")
"""Kind of model that the AI SDK puts behind a provider's name."""


def is_provider(id: str) -> bool:
    """Return whether `providers.toml` has a row of this id."""
    return id in _providers()


def vendor_priced(id: str) -> Mapping[str, Any] | None:
    """Return the row of a host where a model without a price of the host's own costs what its vendor asks.

    None for others.
    """
    row = _providers().get(id)
    return row if row and row.get("sells_at") == "vendor" else None


def betas_for(feature: str) -> tuple[str, ...]:
    """Return the beta names that opt in to a feature of `betas.toml`, the one to recommend first.

    >>> betas_for("messages.output_config")
    ('mid-conversation-output-config-2026-07-01', 'per-turn-control-2026-07-01')
    """
    return tuple(row["name"] for row in built_in_table("betas.toml")["betas"] if feature in row.get("opens", ()))


def unknown_betas(betas: Iterable[str]) -> list[str]:
    """Return the beta names that no row of `betas.toml` has, sorted."""
    return sorted(set(betas).difference(row["name"] for row in built_in_table("betas.toml")["betas"]))


def may_use(betas: Iterable[str], opting_in: Iterable[str]) -> bool:
    """Whether a request with `betas` may use what any of `opting_in` opts in to: one of them is there, or a name that
    no row has, which may be another name of it.
    """
    return not set(opting_in).isdisjoint(betas) or bool(unknown_betas(betas))


# Which files
# -----------------------------------------------------------------------------------------------------------------

_named: list[str] = []
n_changes = 0
"""How often `use_file` named another file."""


def use_file(path: str) -> None:
    """Use a file that was named on the command line, before those of the environment and of pyproject.toml.

    Empty for none.
    """
    global n_changes  # noqa: PLW0603 - which files a process uses is the process's own
    if _named != ([path] if path else []):
        _named[:] = [path] if path else []
        n_changes += 1


def state() -> tuple[int, str]:
    """Return what changes when other files are to be read: how often `use_file` was called, and the environment
    variable.
    """
    return n_changes, os.environ.get(VARIABLE, "")


def user_facts() -> tuple[Facts, ...]:
    """Return what the user's files say, the least important first: pyproject.toml, the environment variable, the
    command line.

    Raises `UsageError` as `read_facts`.
    """
    project, variable = _in_project(Path.cwd()), os.environ.get(VARIABLE, "")
    paths = [*([project] if project else []), *([variable] if variable else []), *_named]
    return tuple(read_facts(path) for path in paths)


def _in_project(folder: Path) -> str:
    """The file that the nearest pyproject.toml names, empty where it names none or cannot be read: it may be another
    tool's.
    """
    import tomllib

    for place in (folder, *folder.parents):
        file = place / "pyproject.toml"
        if file.is_file():
            try:
                whole = tomllib.loads(file.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
                return ""
            tool = whole.get("tool")
            ours = tool.get("contextkit") if isinstance(tool, dict) else None
            named = ours.get("models") if isinstance(ours, dict) else None
            if named is None:
                return ""
            if not isinstance(named, str) or not named:
                raise UsageError(f"{file}: [tool.contextkit] models must be the name of a file, not {named!r}")
            return str(place / named)
    return ""


def built_in() -> Facts:
    """Return the prices and service tiers that ship with the package."""
    return read_facts(Path(__file__).with_name("prices.toml"))


@lru_cache(maxsize=8)
def built_in_table(name: str) -> Mapping[str, Any]:
    """Return a file of this folder, parsed once: `models.toml`, `parameters.toml`, `rules.toml`, `clients.toml`,
    `betas.toml`.

    Its rows are not checked here: a test does that once and for all.
    """
    import tomllib

    return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
