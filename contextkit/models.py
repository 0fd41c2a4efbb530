"""Cache rules of models: minima, lifetimes and what each model accepts, as `facts/models.toml` has them.

Takes a model name, gives its row. A difference between models is a cell of the table, never a branch elsewhere. Each
row has a source, a date and a grade. A name without a row gets the rules of its nearest relative, graded `ASSUMED`. The
table is read when the first model is looked up. Knows nothing of prices.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, replace
from functools import lru_cache
from typing import Any

from contextkit.errors import UnknownModel, UsageError
from contextkit.facts import load
from contextkit.facts.load import FactRow


class AssumedModelWarning(UserWarning):
    """The model table has no row for this model, so the rules of its nearest relative are assumed; or it is a model of
    another provider than the class's own, so that its rules may not hold there.

    The text says which and what to do.
    """


@dataclass(frozen=True, slots=True)
class Model:
    """What is true of one model."""

    name: str
    """As sent in requests."""
    provider: str
    """`anthropic`, `openai`, `google`, `aws`, `deepseek`, …: the id prices are looked up under."""
    cache: str
    """`breakpoints` (writes at marks: Anthropic, OpenAI ≥5.6), `implicit` (any prefix, rounded down: OpenAI ≤5.5,
    Gemini), `billed` (that, with writes that cost: Kimi) or `units` (whole persisted prefixes: DeepSeek)."""
    min_tokens: int
    """Shorter prefixes are never cached."""
    granularity_tokens: int
    """A read is rounded down to a multiple of this; 1 for breakpoint caches, and where any prefix is read."""
    ttls_seconds: tuple[int, ...]
    """Lifetimes that can be asked for, shortest first; the first is the default unless `default_ttl_seconds` says
    otherwise."""
    default_ttl_seconds: int
    """Lifetime when none is asked for."""
    window_tokens: int
    """Largest prompt plus output."""
    tokenizer: str
    """`o200k_base`, or `bytes` for an estimate by size."""
    bytes_per_token: float
    """Average for `bytes`, in UTF-8 bytes of text; an estimate."""
    accepts_prefill: bool
    """Whether the messages may end with an assistant turn."""
    accepts_forced_choice: bool
    """Whether `tool_choice` any/tool (required/function) is accepted."""
    accepts_mid_system: bool
    """Whether a system message may stand between messages."""
    strips_thinking: bool
    """Whether earlier thinking leaves the prompt when a new user turn arrives."""
    binds_thinking: bool
    """Whether returned thinking is checked against the conversation before it."""
    confidence: str
    """`DOC`, `SDK`, `ISSUE` or `MEASURED`; `UNSURE` where a cell of the row is inferred: `assumed` says which;
    `ASSUMED`
    where the whole row is that of another model, which `source` names."""
    source: str
    """Origin of the row: keys of `SOURCES`, divided by blanks, or the user's own words."""
    accepts_message_effort: bool = False
    """Whether a system message between turns may set the effort from there on (MIDSYS)."""
    accepts_custom_tools: bool = False
    """Whether a tool may be called with free text, or text of a grammar (CUSTOM)."""
    tool_prompt_tokens: int = 0
    """Tokens of the system prompt that the provider adds to a request with tools; measured, without the one sentence
    that a forced choice adds."""
    max_output_tokens: int = 0
    """Largest output limit that a request may set; 0 where it is not known."""
    accepts_tool_search: bool = False
    """Whether the model can ask the caller for tools (SEARCH)."""
    retired_on: str = ""
    """ISO date on which its provider retires it, as announced; may lie ahead. Empty where none is announced (RETIRE).
    """
    date: str = field(default="", compare=False, repr=False)
    """ISO date on which the sources were read; empty where nobody gave one."""
    assumed: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Columns that no source states; `note` says why they are as they are."""
    note: str = field(default="", compare=False, repr=False)
    """Remarks on the row, in plain words."""

    @property
    def is_assumed(self) -> bool:
        """Return whether the table has no row for this name, so that the rules are those of its nearest relative.

        `source` names it.
        """
        return self.confidence == "ASSUMED"

    @property
    def is_lifetime_documented(self) -> bool:
        """Return whether the row, or that of the nearest relative, states lifetimes that its provider documents.

        >>> [model_named(name).is_lifetime_documented for name in ("gpt-5.5", "deepseek-v4-pro", "big-pickle")]
        [True, False, False]
        """
        return "ttls_seconds" not in self.assumed

    @property
    def takes_routing_key(self) -> bool:
        """Return whether requests carry a `prompt_cache_key`, which keeps a conversation on the servers that hold it."""
        return self.provider in ("openai", "azure")

    @property
    def strips_reasoning(self) -> bool:
        """Whether reasoning of earlier turns leaves the prompt at a new user turn, where the request does not say.

        OpenAI: `current_turn` before gpt-5.6 (openai/types/shared_params/reasoning.py:24).

        >>> [model_named(name).strips_reasoning for name in ("gpt-5.5", "gpt-5.6-sol", "claude-opus-4-5")]
        [True, False, False]
        """
        return self.strips_thinking or (self.provider == "openai" and self.cache == "implicit")

    @property
    def grade(self) -> str:
        """`documented`, `measured` or `assumed`: of the whole row, so `assumed` where one of its columns is.

        >>> model_named("claude-opus-5-5").grade, model_named("gemini-3.8-flash").grade
        ('documented', 'assumed')
        """
        return load.GRADE_OF[self.confidence]


_COLUMNS = tuple(Model.__dataclass_fields__)
_OPTIONAL = tuple(name for name, column in Model.__dataclass_fields__.items() if column.default is not MISSING)


@lru_cache(maxsize=1)
def built_in_models() -> tuple[Model, ...]:
    """Return the rows that come with the package, whatever was registered since; each provider's newest first."""
    table = load.built_in_table("models.toml")
    models = [_built_in_model(row, table["families"]) for row in table["models"]]
    by_name = {model.name: model for model in models}
    for name in table["claude_on_bedrock"]:
        model = by_name[name]
        models.append(replace(model, name=f"anthropic.{name}", provider="aws", source=f"{model.source} BED"))
    on_bedrock = [model for model in models if model.provider == "aws"]
    models += [
        replace(model, name=f"{profile}.{model.name}", source=f"{model.source} PROF")
        for model in on_bedrock
        for profile in table["bedrock_profiles"]
    ]
    return tuple(models)


def _built_in_model(row: Mapping[str, Any], families: Mapping[str, Mapping[str, Any]]) -> Model:
    family = families[row["family"]]
    columns = {**family, **row}
    assumed = (*family.get("assumed", ()), *row.get("assumed", ()))
    columns["assumed"] = assumed
    columns["note"] = " ".join(part for part in (row.get("note"), family.get("note")) if part)
    columns["confidence"] = "UNSURE" if assumed else load.CONFIDENCE_OF[columns["grade"]]
    columns["ttls_seconds"] = tuple(columns["ttls_seconds"])
    columns["date"] = columns["date"].isoformat()
    if "retired_on" in columns:
        columns["retired_on"] = columns["retired_on"].isoformat()
    del columns["family"]
    del columns["grade"]
    return Model(**columns)


class _Sources(Mapping[str, str]):
    """The table of sources, read when it is first used."""

    def __getitem__(self, key: str) -> str:
        return str(load.built_in_table("models.toml")["sources"][key])

    def __iter__(self) -> Iterator[str]:
        return iter(load.built_in_table("models.toml")["sources"])

    def __len__(self) -> int:
        return len(load.built_in_table("models.toml")["sources"])


SOURCES: Mapping[str, str] = _Sources()
"""Short key in `Model.source` → the page or package it stands for."""


class _Table(Mapping[str, Model]):
    """Rows by name, and what was found out about names: built when the first model is looked up, rebuilt when the
    user's files change, extended by `register`.
    """

    def __init__(self) -> None:
        self._rows: dict[str, Model] = {}
        self._registered: dict[str, Model] = {}
        """Rows that a program registered: they come before every file."""
        self._read: tuple[int, str] | None = None
        """`facts.load.state()` of the files that `_rows` was built from."""
        self._rows_by_name: dict[str, Model] | None = None
        self._rows_by_parts: list[tuple[tuple[str, ...], Model]] | None = None
        self._cached_rows: dict[str, Model | None] = {}
        self._resolved_rows: dict[tuple[str, str], Model] = {}

    def __getitem__(self, name: str) -> Model:
        return self.rows()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self.rows()))

    def __len__(self) -> int:
        return len(self.rows())

    def rows(self) -> dict[str, Model]:
        """Return the rows by name. Raises `UsageError` for what is wrong in a user's file."""
        if self._read != (load.n_changes, os.environ.get(load.VARIABLE, "")):  # as load.state(), without a call
            state = load.state()
            rows = {model.name: model for model in built_in_models()}
            for facts in load.user_facts():
                for row in facts.models:
                    model = _model_of(row, rows)
                    rows[model.name] = model
            self._rows = rows | self._registered
            self._forget()
            self._read = state
        return self._rows

    def _forget(self) -> None:
        self._rows_by_name = None
        self._rows_by_parts = None
        self._cached_rows = {}
        self._resolved_rows = {}

    def register(self, model: Model) -> None:
        """Add a row, or replace the one of its name."""
        self._registered[model.name] = model
        if self._read is not None:
            self._rows[model.name] = model
        self._forget()

    def unregister(self, name: str) -> None:
        """Remove a registered row; the files' own row of the name is back then."""
        del self._registered[name]
        self._read = None

    def find(self, name: str) -> Model | None:
        """Return the row of a model under any spelling of its name."""
        row = self.rows().get(name)
        if row is not None:
            return row
        if len(name) > _LONGEST_NAME:
            return None
        if name not in self._cached_rows:
            index = self._index()
            row = next((index[spelling] for spelling in _spellings(name) if spelling in index), None)
            _remember(self._cached_rows, name, row)
        return self._cached_rows[name]

    def resolve(self, name: str, provider: str) -> Model:
        """Return the row of a model, or one made after its nearest relative."""
        row = self.rows().get(name)
        if row is not None:
            return row
        if len(name) > _LONGEST_NAME:  # never cached: the name itself is what would fill memory
            return replace(self._resolved(name[:_LONGEST_NAME], provider), name=name)
        row = self._resolved_rows.get((name, provider))
        if row is None:
            row = self._resolved(name, provider)
            _remember(self._resolved_rows, (name, provider), row)
        return row

    def _resolved(self, name: str, provider: str) -> Model:
        is_bedrock = bool(_ON_BEDROCK.match(name.lower())) or name.startswith("arn:aws")
        row = self.find(name)
        if row is not None:
            return replace(row, name=name, provider="aws" if is_bedrock else row.provider)
        owner = "aws" if is_bedrock else _names("hosts").get(provider, provider)
        near = self._nearest(name)
        if near is None and owner != "openai":
            near = self._newest(owner)
        if near is None:
            # Many hosts speak OpenAI's formats: a model unlike any of its own is not sent the fields of its newest.
            return replace(_CAUTIOUS, name=name, provider=owner if owner in ("aws", "openai") else "")
        source = f"assumed after {near.name}: no row for this name"
        if is_bedrock:
            near = replace(near, provider="aws")
        return replace(near, name=name, confidence="ASSUMED", source=source, retired_on="")

    def _index(self) -> dict[str, Model]:
        """Every row by its spelling; a vendor's own row before that of a host."""
        if self._rows_by_name is None:
            index: dict[str, Model] = {}
            for row in sorted(self.rows().values(), key=_is_on_bedrock):
                index.setdefault(_key(row.name), row)
                if "/" not in row.name:  # a host's own row, `openai/gpt-oss-120b`, is not the same model elsewhere
                    index.setdefault(_key(_bare(row.name)), row)
            self._rows_by_name = index
        return self._rows_by_name

    def _by_parts(self) -> list[tuple[tuple[str, ...], Model]]:
        """Every row's parts, from each word on that a name may begin with; a vendor's own rows before those of hosts.

        Without rows that a program registered: an adapter of a host registers each model it is given, and what is
        assumed of a name must not depend on which came before.
        """
        if self._rows_by_parts is None:
            built_in = {model.name for model in built_in_models()}
            relatives = [
                row for row in self.rows().values() if row.name in built_in or row.name not in self._registered
            ]
            relatives.sort(key=lambda row: "/" in row.name or _is_on_bedrock(row))
            self._rows_by_parts = [(parts, row) for row in relatives for parts in _from_anchor(row.name)]
        return self._rows_by_parts

    def _nearest(self, name: str) -> Model | None:
        """The row with the most leading parts in common.

        Of equals one of the same release, one that is all in the name, the first.
        """
        parts = next(_from_anchor(name), None)
        if parts is None:
            return None
        best = max(self._by_parts(), key=lambda pair: _likeness(parts, pair[0]), default=None)
        if best is not None and _likeness(parts, best[0])[0]:
            return best[1]
        return self._newest(_names("vendors").get(parts[0], "openai"))

    def _newest(self, provider: str) -> Model | None:
        """The first row of a provider: each provider's rows stand newest first."""
        return next((row for _, row in self._by_parts() if row.provider == provider), None)


_MOST_NAMES = 1024
"""Names whose rows are remembered; beyond, all are forgotten."""


def _remember(cache: dict[Any, Any], key: object, value: object) -> None:
    if len(cache) >= _MOST_NAMES:
        cache.clear()
    cache[key] = value


_TABLE = _Table()
MODELS: Mapping[str, Model] = _TABLE
"""Every model with a row, by its name: built-in rows, those of the user's files, and registered ones."""


def is_of_another(name: str, model: Model) -> bool:
    """Whether a reply was written by another model, so that its thinking does not hold here: it is bound to its model
    (THINK).

    A dated alias is the same model; a name without a row is taken for it.

    >>> [is_of_another(name, model_named("claude-opus-4-5")) for name in ("claude-opus-4-5-20251101", "claude-sonnet-4-5", "any")]
    [False, True, False]
    """
    if name == model.name:
        return False
    row = find_model(name)
    return row is not None and _undated(row.name) != _undated((find_model(model.name) or model).name)


def model_named(name: str, provider: str = "") -> Model:
    """Return the row of a model, or one made after its nearest relative; raises for no string.

    In this order: the row of this name; the row of this name in another spelling (case, vendor's prefix, date,
    `-latest`, release of a host); the row that shares the most leading parts of the name, the newest of equals; the
    newest row of the vendor; the newest row of `provider`, an id as in `Model.provider`; a row of cautious rules. The
    last four are graded `ASSUMED`, and their `source` names the row they were made after. The row has the name asked
    for. Raises `UnknownModel` for what is no string.

    >>> model_named("claude-opus-4-7").min_tokens, model_named("us.anthropic.claude-opus-4-7-v1:0").confidence
    (2048, 'DOC')
    >>> model_named("claude-opus-5-9").source
    'assumed after claude-opus-5-5: no row for this name'
    """
    if not isinstance(name, str):
        raise UnknownModel(f"a model is named by a string, not {type(name).__name__}")
    return _TABLE.resolve(name, provider)


def find_model(name: str) -> Model | None:
    """Return the table's own row of a model under any spelling of its name, None where there is none and rules would be
    assumed.

    The row has the name it has in the table, so that two spellings of one model can be compared.

    >>> find_model("anthropic/claude-opus-4.5").name, find_model("gpt-7-foo")
    ('claude-opus-4-5', None)
    """
    return _TABLE.find(name)


@lru_cache(maxsize=256)
def place_in(name: str) -> tuple[str, str]:
    """Account and region that the name of a model says, whose caches are apart; empty where it says none.

    >>> place_in("arn:aws:bedrock:us-east-1:111122223333:inference-profile/eu.anthropic.claude-opus-4-5-20251101-v1:0")
    ('111122223333', 'us-east-1')
    >>> place_in("eu.anthropic.claude-opus-4-5-20251101-v1:0"), place_in("claude-opus-4-5")
    (('', 'eu'), ('', ''))
    """
    whole = _ARN.match(name) or _VERTEX.match(name)
    if whole:
        return whole["account"], whole["region"]
    prefix = _REGION.match(name.rpartition("/")[2])
    return "", prefix[1] if prefix else ""


def without_region(name: str) -> str:
    """Return the name of a model without the region in front of it.

    >>> without_region("eu.anthropic.claude-opus-4-8")
    'anthropic.claude-opus-4-8'
    """
    return _REGION.sub("", name, count=1)


_ARN = re.compile(r"arn:[\w-]+:bedrock:(?P<region>[\w-]*):(?P<account>\d*):")
_VERTEX = re.compile(r"projects/(?P<account>[^/]+)/locations/(?P<region>[^/]+)/")
_REGION = re.compile(r"(us-gov|us|eu|apac|ap|jp|au|ca|sa|global)\.(?=[a-z0-9-]+\.)")


def assumption(model: Model, way: str = "") -> str:
    """Say, for an assumed row, what was assumed and how to register the model's own rules: `way`, or what a program can
    do.

    >>> assumption(model_named("claude-opus-5-9"))[:77]
    "no rules are known for model 'claude-opus-5-9': assumed after claude-opus-5-5"
    """
    name = model.name if len(model.name) <= 80 else f"{model.name[:77]}..."
    after = model.source.removeprefix("assumed").partition(":")[0].strip() or "cautious rules"
    close = nearest_name(name)
    near = f" Did you mean {close!r}?" if close else ""
    return f"no rules are known for model {name!r}: assumed {after}.{near} {way or _REGISTERING}"


@lru_cache(maxsize=256)
def nearest_name(name: str) -> str:
    """Return the name in the table that `name` is most likely a misspelling of, empty if there is none.

    A name with other numbers is another release, not a misspelling.

    >>> nearest_name("claude-sonet-5-5"), nearest_name("claude-opus-5-9"), nearest_name("nonsense")
    ('claude-sonnet-5-5', '', '')
    """
    import difflib

    numbers = re.findall(r"\d+", name)
    rows = [row for row in MODELS if len(name) <= _LONGEST_NAME and re.findall(r"\d+", row) == numbers]
    return next(iter(difflib.get_close_matches(name, rows, n=1, cutoff=0.8)), "")


_REGISTERING = (
    "To give its own, add a [[models]] row to a TOML file and name the file with contextkit.register_models(path), in the environment "
    'variable CONTEXTKIT_MODELS, or in pyproject.toml: [tool.contextkit] models = "models.toml"'
)


def register(model: Model) -> None:
    """Put the user's own row into `MODELS`; one of the same name is replaced.

    >>> from dataclasses import replace
    >>> register(replace(model_named("gpt-4o"), name="our-gpt-4o", source="https://platform.openai.com/docs/models"))
    >>> model_named("our-gpt-4o").granularity_tokens
    128
    """
    _TABLE.register(model)


def unregister(name: str) -> None:
    """Take a registered row out of `MODELS` again. Raises `KeyError` where none of the name was registered."""
    _TABLE.unregister(name)


def register_rows(rows: Iterable[FactRow]) -> None:
    """Register `[[models]]` rows of a file of facts.

    Raises `UsageError` that names the row and the key for one that makes no model.
    """
    for model in [_model_of(row, _TABLE.rows()) for row in rows]:
        register(model)


# The user's files
# ------------------------------------------------------------------------------------------------------------


def read_user_rows() -> None:
    """Read the user's files of facts now instead of at the first look-up.

    Raises `UsageError` for what is wrong in one of them.
    """
    _TABLE.rows()


def _model_of(row: FactRow, table: Mapping[str, Model]) -> Model:
    """The model a row describes; with `like` it begins as another row of the table."""
    values = {key: value for key, value in row.fields.items() if key in _COLUMNS}
    source = row.fields.get("source")
    origin = {
        "source": source or f"registered by the user in {row.where}",
        "confidence": row.fields.get("confidence") or ("DOC" if source else "UNSURE"),
        "date": row.fields.get("date", ""),
        "assumed": row.fields.get("assumed", ()),
        "note": row.fields.get("note", ""),
    }
    like = row.fields.get("like")
    if like is None:
        missing = [name for name in _COLUMNS if name not in values and name not in (*_OPTIONAL, *origin)]
        if missing:
            raise UsageError(
                f'{row.where}: {missing[0]!r} is missing; give it, or begin with another row\'s columns: like = "gpt-5.5"'
            )
        model = Model(**{**values, **origin})
    else:
        start = table.get(like) or next((table[name] for name in _spellings(like) if name in table), None)
        if start is None:
            import difflib

            close = difflib.get_close_matches(like, table, n=3, cutoff=0.4)
            near = f"; close to it are {', '.join(close)}" if close else ""
            raise UsageError(f"{row.where}: like: the table has no model {like!r}{near}")
        model = replace(start, **{"retired_on": "", **values, **origin})
    if "ttls_seconds" in values and "default_ttl_seconds" not in values:
        model = replace(model, default_ttl_seconds=model.ttls_seconds[0])
    if model.default_ttl_seconds not in model.ttls_seconds:
        raise UsageError(f"{row.where}: default_ttl_seconds must be one of ttls_seconds, {list(model.ttls_seconds)}")
    return model


# Names
# ---------------------------------------------------------------------------------------------------------------------

_LONGEST_NAME = 256
"""Characters of a name that are compared; no provider has longer ones."""
_ON_BEDROCK = re.compile(
    r"^(?:(?:us|eu|apac|global|us-gov|au|ca|jp|regional)\.)?"
    r"(?:anthropic|amazon|meta|mistral|openai|deepseek|qwen|moonshotai|moonshot|zai|google|cohere|ai21|writer|nvidia|minimax)\."
)
"""How Bedrock names a model: region of the profile, vendor, name (PROF)."""
_DATE = re.compile(
    r"(?:[-@](?:20\d{6}|20\d\d-\d\d-\d\d|\d\d-\d\d|\d\d-20\d\d|\d{4}|00\d|default))?"
    r"(?:[-@](?:latest|preview))?(?:[-@]v\d+)?(?::\d+)?$"
)
"""A snapshot or release behind a name: `-20251101`, `@20251101`, `-2026-04-23`, `-0613`, `-latest`, `-v1:0`, `-001`;
not `-6`."""
_TAG = re.compile(r"(?::[a-z][a-z-]*|\[\w+\])$")
"""What a router or a client puts behind a name: `:free`, `:nitro`, `[1m]`."""
_FINE_TUNED = re.compile(r"^ft:([^:]+)(?::.*)?$")
"""`ft:gpt-4o-mini-2024-07-18:organisation::id`."""
_VERSION_FIRST = re.compile(r"^claude-(\d(?:-\d)?)-(opus|sonnet|haiku)$")
"""`claude-4.6-sonnet` for `claude-sonnet-4-6` (OpenRouter)."""
_CAUTIOUS = Model(
    name="",
    provider="",
    cache="implicit",
    min_tokens=1024,
    granularity_tokens=128,
    ttls_seconds=(300,),
    default_ttl_seconds=300,
    window_tokens=128_000,
    tokenizer="bytes",
    bytes_per_token=4.0,
    accepts_prefill=False,
    accepts_forced_choice=True,
    accepts_mid_system=False,
    strips_thinking=False,
    binds_thinking=False,
    confidence="ASSUMED",
    source="assumed: no row for this name, and none that is near it",
    assumed=("ttls_seconds",),
)
"""Rules of a model of which nothing is known: cached unasked, as at most hosts, for the shortest lifetime any of them
publishes."""


@lru_cache(maxsize=8)
def _names(table: str) -> Mapping[str, str]:
    """One of the tables of names in `facts/models.toml`: `aliases`, `synonyms`, `vendors`, `hosts`."""
    names: dict[str, str] = load.built_in_table("models.toml")[table]
    return names


def _is_on_bedrock(row: Model) -> bool:
    return bool(_ON_BEDROCK.match(row.name))


def _key(name: str) -> str:
    return re.sub(r"[._ ]", "-", name.lower())


def _bare(name: str) -> str:
    """A name without what a host, a router or a client puts around it, in lower case."""
    bare = name.strip().lower().rsplit("/", 1)[-1].lstrip("~")
    bare = _FINE_TUNED.sub(r"\1", bare)
    return _TAG.sub("", _TAG.sub("", _ON_BEDROCK.sub("", bare)))


def _undated(name: str) -> str:
    return _DATE.sub("", name)


def _spellings(name: str) -> Iterator[str]:
    """The names a row may have for it, the most exact first."""
    bare = _bare(name)
    yield _key(name)
    yield _key(_undated(name.lower()))
    yield _key(bare)
    undated = _key(_undated(bare))
    yield undated
    if "latest" in bare or undated == _key(bare):
        alias = _names("aliases").get(undated)
        if alias and ("latest" in bare or not alias.startswith("gemini")):
            yield _key(alias)
    yield _VERSION_FIRST.sub(r"claude-\2-\1", undated)


def _likeness(wanted: tuple[str, ...], parts: tuple[str, ...]) -> tuple[int, bool, bool]:
    n = 0
    while n < min(len(wanted), len(parts)) and wanted[n] == parts[n]:
        n += 1
    if n < 2:  # one word, such as `claude`, says nothing of the release
        return n, False, False
    goes_on = [rest[n].isdigit() for rest in (wanted, parts) if len(rest) > n]
    is_same_release = len(set(goes_on)) < 2 and not (len(goes_on) == 1 and goes_on[0])
    return n, is_same_release, n == len(parts) and not any(goes_on)


def _from_anchor(name: str) -> Iterator[tuple[str, ...]]:
    """The parts of a name from each word on that says what model it is."""
    synonyms, vendors = _names("synonyms"), _names("vendors")
    words = re.split(r"[^a-z0-9]+|(?<=[a-z]{3})(?=\d)", _undated(_bare(name)))
    parts = [synonyms.get(word, word) for word in words if word]
    for at, part in enumerate(parts):
        if part in vendors or re.fullmatch(r"o\d", part):
            yield tuple(parts[at:])
