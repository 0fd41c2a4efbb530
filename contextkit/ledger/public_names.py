"""Names and texts that identify nobody: an allow-list of what a record may keep word for word when it is published.

`PublicNames` returns a name that it knows to be public as it is, and a keyed hash of any other. What is public: models
and providers of the built-in tables and of genai-prices, service tiers, classes of errors, verdicts of providers, and
the texts that this package's own importers write. Nothing is public because of its form: a text that is not listed is
replaced by its class.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from contextkit import prices
from contextkit.errors import UnknownModel
from contextkit.facts import load
from contextkit.facts.observed import event_rates
from contextkit.ledger.calls import INFERRED_LANE, OTHER_PROJECT, REROUTED
from contextkit.models import Model, built_in_models, find_model, model_named

Hasher = Callable[[str, str], str]
"""(kind of name, name) → keyed hash as hex digits."""

# Texts
# --------------------------------------------------------------------------------------------------------------

ERRORS = frozenset(
    {
        *("aborted", "cut", "cancelled", "error", "timeout", "api_error", "authentication_error", "billing_error"),
        *("conflict_error", "context_length_exceeded", "content_filter", "insufficient_quota", "internal_server_error"),
        *("invalid_request_error", "not_found_error", "overloaded_error", "permission_error", "rate_limit_error"),
        *("rate_limit_exceeded", "request_too_large", "retriesexhausted", "server_error", "service_unavailable_error"),
        *("streaming_failed", "timeout_error", "tokens_exceeded", "apiconnectionerror", "apierror", "apitimeouterror"),
        *("authenticationerror", "badrequesterror", "contextwindowexceedederror", "internalservererror"),
        *("messageabortederror", "messageoutputlengtherror", "notfounderror", "permissiondeniederror"),
        *("providerautherror", "ratelimiterror", "serviceunavailableerror", "unknownerror"),
        *("deadline_exceeded", "failed_precondition", "internal", "invalid_argument", "not_found"),
        *("permission_denied", "resource_exhausted", "unauthenticated", "unavailable"),
    }
)
"""Classes of errors: of the Anthropic, OpenAI and Google APIs, of LiteLLM and opencode, and of this package; in lower
case."""
VERDICTS = frozenset(
    {
        *("model_changed", "tools_changed", "system_changed", "messages_changed", "unavailable"),
        *("previous_message_not_found", "comparison_response_not_found", "prompt_cache_key_changed"),
        *("service_tier_changed", "text_format_changed", "reasoning_effort_changed", "verbosity_changed"),
        *("input_changed", "cache_hit"),
    }
)
"""Diagnoses of the Anthropic and OpenAI APIs (`server/endpoints/diagnostics.py`)."""
OTHER_VERDICT = "other"
"""Stands for a verdict that is not listed."""
COMPACTIONS = frozenset(
    {
        *("auto", "manual", "the history was condensed", "the provider compacted the history"),
        *("Codex compacted the history", "Copilot compacted the history", "Qwen Code compressed the history"),
        *("opencode summarised the history", "a summary took the place of what came before"),
        *("compact_boundary", "compact_boundary, auto", "compact_boundary, manual"),
        *("microcompact_boundary", "microcompact_boundary, auto", "microcompact_boundary, manual"),
    }
)
"""What importers say of a compaction."""
OTHER_COMPACTION = "the history was compacted"
"""Stands for another text about a compaction."""
SETTING_VALUES = frozenset(
    {
        *("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra", "auto", "default"),
        *("standard", "fast", "flex", "priority", "batch", "true", "false"),
    }
)
"""Values of settings."""
OTHER_SETTING = "a request setting"
"""Stands for a text about a setting that is not of a known form."""
_SETTING = re.compile(r"(effort|speed) (.+) → (.+)")
_STATUS = re.compile(r"[1-5]\d\d")
_NUMBERED_LANE = re.compile(rf"{INFERRED_LANE}[1-9]\d{{0,5}}")


def error_class(error: str) -> str:
    """Return the class of an error, `error` where the text names none.

    >>> error_class("overloaded_error"), error_class("529"), error_class("no access to the plan")
    ('overloaded_error', '529', 'error')
    """
    return error if error.lower() in ERRORS or _STATUS.fullmatch(error) else "error"


def verdict_class(verdict: str) -> str:
    """Return a provider's verdict where it is a known one, else `OTHER_VERDICT`."""
    return verdict if verdict in VERDICTS else OTHER_VERDICT


def compaction_text(text: str) -> str:
    """Return what an importer says of a compaction, or `OTHER_COMPACTION`."""
    return text if text in COMPACTIONS else OTHER_COMPACTION


def event_text(text: str) -> str:
    """Return an event of a client by its name, with what is said of it where that is public.

    >>> event_text("resume: after /exit"), event_text("slash command: /acme-deploy"), event_text("many blocks: 22")
    ('resume: after /exit', 'slash command: ', 'many blocks: 22')
    """
    name, _, said = text.partition(": ")
    if event_rates(name) is None:
        return OTHER_EVENT
    return f"{name}: {said if _PUBLIC_EVENT.fullmatch(said) else ''}"


PROGRAMS = frozenset(
    {
        *("Claude Code", "Codex", "Copilot CLI", "Gemini CLI", "Qwen Code", "opencode", "pi", "aider", "OpenHands"),
        *("Cline", "Cline or Roo Code", "SWE-agent", "Inspect"),
    }
)
"""Agent programs that hold sessions."""
OTHER_EVENT = "other: "
"""Stands for an event that is not listed."""
_PUBLIC_EVENT = re.compile(
    r"\d{1,9}(?: removed)?|after /(?:exit|quit)"
    r"|(?:none|on|level:(?:low|medium|high)|maxThinkingTokens:\d{1,9})"
    r" → (?:none|on|level:(?:low|medium|high)|maxThinkingTokens:\d{1,9})"
    r"|(?:default|plan|acceptEdits|bypassPermissions|dontAsk|auto) → (?:default|plan|acceptEdits|bypassPermissions|dontAsk|auto)"
    r"|\d{1,4}\.\d{1,4}\.\d{1,4} → \d{1,4}\.\d{1,4}\.\d{1,4}"
)


# Names
# --------------------------------------------------------------------------------------------------------------

ENGINES = frozenset({"vllm", "sglang", "llama.cpp", "ollama", "lmstudio", "azure-openai", "copilot"})
"""Names of providers that are in no table."""
PUBLIC_WORDS = frozenset(
    {
        *("anthropic", "amazon", "aws", "azure", "bedrock", "google", "openai", "openrouter", "vertex", "vertexai"),
        *("deepseek", "moonshotai", "moonshot", "mistralai", "mistral", "meta", "qwen", "zai", "xai", "ai"),
        *("x", "accounts", "fireworks", "models", "publishers", "us", "eu", "apac", "au", "ca", "jp", "global"),
        *("latest", "preview", "free"),
        *("nitro", "floor", "thinking", "default", "1m", "v1", "v2", "v3"),
    }
)
"""Words that hosts, routers and clients put around the name of a model."""
NO_MODELS = frozenset({"", "unknown", "all"})
"""Stand where no model is named."""
_RELEASE = re.compile(r"20\d{6}|20\d\d|0\d\d\d|1[0-2]\d\d|[0-3]?\d|00\d")
"""Parts of a date, or the number of a release."""


class PublicNames:
    """Keeps public names and hashes the others, the same name always alike."""

    def __init__(self, hashed: Hasher, *, keep_models: bool = False) -> None:
        """`keep_models` keeps every name of a model as it is."""
        self.hidden_models: dict[str, None] = {}
        """What stands for models that were hashed, in order of appearance."""
        self._hashed, self._keep_models = hashed, keep_models
        self._models: dict[tuple[str, str], str] = {}

    def identifier(self, kind: str, name: str) -> str:
        """Return what stands for an identifier: its kind and its hash; empty where there is none."""
        return f"{kind}-{self._hashed(kind, name)}" if name else ""

    def agent(self, name: str) -> str:
        """Return what stands for an agent or a lane; `main` and `conversation 2` name nobody and stay."""
        return name if name == "main" or _NUMBERED_LANE.fullmatch(name) else self.identifier("agent", name)

    def provider(self, name: str) -> str:
        """Return the provider, or what stands for one that is in no table."""
        return name if not name or name in _public_providers() else self.identifier("provider", name)

    def model(self, provider: str, model: str) -> str:
        """Return the model, or what stands for one that is in no table.

        A stand-in has the rules, and where that can be had the price, of the name it stands for.
        """
        name = self._models.get((provider, model))
        if name is None:
            name = model
            if not self._keep_models and not is_public_model(provider, model):
                name = self._stand_in(provider, model)
                self.hidden_models[name] = None
            self._models[provider, model] = name
        return name

    def _stand_in(self, provider: str, model: str) -> str:
        hidden = self.identifier("model", model)
        near = _near(model, provider)
        names = (hidden, f"{near}-{hidden}") if near else (hidden,)
        wanted, price = _rules(model, provider), _prices(model, provider)
        with_rules = [name for name in names if _rules(name, provider) == wanted]
        with_price = [name for name in with_rules if _prices(name, provider) == price]
        return next(iter([*with_price, *with_rules, hidden]))

    def tier(self, tier: str) -> str:
        """Return the service tier, its unknown parts hashed."""
        known = _public_tiers()
        parts = tier.split(" + ") if tier else []
        return " + ".join(part if part in known else self.identifier("tier", part) for part in parts)

    def setting(self, text: str) -> str:
        """Return what is said of a changed setting, its unknown values hashed.

        >>> PublicNames(lambda kind, name: "1f").setting("effort low → high, speed odd → fast")
        'effort low → high, speed value-1f → fast'
        """
        for word in (REROUTED, OTHER_PROJECT):
            was, arrow, now = text.removeprefix(word).partition(" → ")
            if text.startswith(word) and arrow:
                kind = word.strip()
                return f"{word}{self.identifier(kind, was)} → {self.identifier(kind, now)}"
        parts = [_SETTING.fullmatch(part) for part in text.split(", ")]
        named = [f"{part[1]} {self._value(part[2])} → {self._value(part[3])}" for part in parts if part]
        return ", ".join(named) if named and len(named) == len(parts) else OTHER_SETTING

    def _value(self, value: str) -> str:
        return value if value in SETTING_VALUES else self.identifier("value", value)


def is_public_model(provider: str, model: str) -> bool:
    """Return whether a name is made of public words only: those of the built-in row or of the genai-prices model it
    goes by, of hosts, and of releases.

    A name that says more (`gpt-4o-acme`, `ft:gpt-4o:acme::id`) is not public; a release without a row is.

    >>> names = ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-opus-5-9", "claude-acme")
    >>> [is_public_model("anthropic", name) for name in names]
    [True, True, False]
    """
    if model in NO_MODELS:
        return True
    relatives = {_near(model, provider), *_priced(provider, model)} - {""}
    words = _words(model)
    return any(
        all(word in _words(name) or word in PUBLIC_WORDS or _RELEASE.fullmatch(word) for word in words)
        for name in relatives
    )


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word] if name.isascii() else [name]


@lru_cache(maxsize=1)
def _built_in_names() -> frozenset[str]:
    return frozenset(row.name for row in built_in_models())


@lru_cache(maxsize=1)
def _public_providers() -> frozenset[str]:
    from genai_prices.data_snapshot import get_snapshot

    hosts: dict[str, str] = load.built_in_table("models.toml")["hosts"]
    rows = {row.provider for row in built_in_models()}
    return frozenset({*(one.id for one in get_snapshot().providers), *hosts, *hosts.values(), *rows, *ENGINES})


@lru_cache(maxsize=1)
def _public_tiers() -> frozenset[str]:
    rows = load.built_in_table("prices.toml")["service_tiers"]
    return frozenset({*(row["tier"] for row in rows), *SETTING_VALUES, "scale", "provisioned", "ptu", "geo-eu"})


def _priced(provider: str, model: str) -> set[str]:
    """The name under which genai-prices has a model."""
    from genai_prices.data_snapshot import get_snapshot

    try:
        return {get_snapshot().find_provider_model(model, None, provider or None, None)[1].id}
    except LookupError:
        return set()


def _near(model: str, provider: str) -> str:
    """Name of the built-in row whose rules a model goes by; empty where there is none."""
    row = find_model(model)
    name = row.name if row else model_named(model, provider).source.removeprefix("assumed after ").partition(":")[0]
    return name if name in _built_in_names() else ""


def _rules(model: str, provider: str) -> Model:
    """The rules of a model without its name and their origin."""
    row = find_model(model) or model_named(model, provider)
    return replace(row, name="", confidence="", source="", retired_on="")


def _prices(model: str, provider: str) -> object:
    try:
        return prices.price_rows(provider, model, _ANY_DAY)
    except UnknownModel:
        return None


_ANY_DAY = 1_790_000_000.0
"""Prices of two names are compared on one day, 2026-09-21."""
