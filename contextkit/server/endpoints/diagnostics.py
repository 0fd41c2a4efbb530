"""Why this request could not re-use the one before: each provider's own diagnosis, on request.

Takes two fingerprints (parameters and prompt, no text), gives the JSON of the response field. Sources:
anthropic/types/cache_miss_*.py, openai/types/responses/response.py, and
platform.claude.com/docs/en/build-with-claude/cache-diagnostics.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from contextkit.cache.prompt import Prompt, common
from contextkit.canonical import Json

KEPT = 1024
"""Fingerprints a server keeps; the oldest go first."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a later request is compared with."""

    model: str
    """The model asked."""
    params: Mapping[str, Json]
    """Top-level fields that are not segments."""
    prompt: Prompt
    """What the cache saw."""

    def head(self, level: int) -> tuple[int, bytes]:
        """Length and digest up to the end of tools (0) or of system (1)."""
        end = self.prompt.level_ends[level]
        return end, self.prompt.digests[end - 1] if end else b""

    def option(self, path: str) -> Json:
        """A nested parameter, `reasoning.effort`, None where it is absent."""
        value: Json = self.params
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    @property
    def reusable_tokens(self) -> int:
        """Tokens up to the last place it wrote, all of them in caches that write everywhere."""
        marks = [mark.segment for mark in self.prompt.breakpoints if mark.is_written]
        return self.prompt.ends_tokens[marks[-1]] if marks else self.prompt.n_tokens


class Fingerprints:
    """Of the requests that asked to be remembered, by the id of their response."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Fingerprint] = OrderedDict()

    def keep(self, response_id: str, fingerprint: Fingerprint) -> None:
        """Remember one."""
        self._kept[response_id] = fingerprint
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def get(self, response_id: Json) -> Fingerprint | None:
        """The one behind a response, None where it was not kept."""
        return self._kept.get(response_id) if isinstance(response_id, str) else None


_Differs = Callable[[Fingerprint, Fingerprint], bool]


def _option(*paths: str) -> _Differs:
    return lambda one, other: any(one.option(path) != other.option(path) for path in paths)


def _speed(one: Fingerprint) -> Json:
    return one.option("speed") or "standard"


def _rewritten(one: Fingerprint, other: Fingerprint) -> bool:
    return common(one.prompt, other.prompt) < one.prompt.n


_ANTHROPIC: tuple[tuple[str, _Differs], ...] = (
    ("model_changed", lambda one, other: one.model != other.model or _speed(one) != _speed(other)),
    ("tools_changed", lambda one, other: one.head(0) != other.head(0)),
    ("system_changed", lambda one, other: one.head(1) != other.head(1)),
    ("unavailable", lambda one, other: one.prompt.namespaces != other.prompt.namespaces),
    ("messages_changed", _rewritten),
)
"""Reason → whether two requests differ in it; in render order, the first counts."""

_OPENAI: tuple[tuple[str, _Differs], ...] = (
    ("model_changed", lambda one, other: one.model != other.model),
    ("prompt_cache_key_changed", _option("prompt_cache_key")),
    ("service_tier_changed", _option("service_tier")),
    ("tools_changed", lambda one, other: one.head(0) != other.head(0) or _option("parallel_tool_calls")(one, other)),
    ("text_format_changed", _option("text.format")),
    ("reasoning_effort_changed", _option("reasoning.effort")),
    ("verbosity_changed", _option("text.verbosity")),
    ("input_changed", _rewritten),
)


def anthropic_diagnosis(kept: Fingerprints, now: Fingerprint, read_tokens: int) -> Json:
    """The `diagnostics` of a message: None where nothing was asked or nothing diverged."""
    asked = now.params.get("diagnostics")
    previous_id = asked.get("previous_message_id") if isinstance(asked, Mapping) else None
    if previous_id is None:
        return None
    previous = kept.get(previous_id)
    if previous is None:
        return {"cache_miss_reason": {"type": "previous_message_not_found"}}
    reason = next((name for name, differs in _ANTHROPIC if differs(previous, now)), None)
    missed = {"cache_missed_input_tokens": max(0, previous.reusable_tokens - read_tokens)}
    return reason and {"cache_miss_reason": {"type": reason, **({} if reason == "unavailable" else missed)}}


def openai_diagnosis(kept: Fingerprints, now: Fingerprint, read_tokens: int) -> Json:
    """The `prompt_cache_diagnostics` of a response: None where nothing was asked."""
    previous_id = now.option("prompt_cache_options.comparison_response_id")
    if previous_id is None:
        return None
    previous = kept.get(previous_id)
    if previous is None:
        return {"type": "comparison_response_not_found"}
    reason = next((name for name, differs in _OPENAI if differs(previous, now)), None)
    if reason is None:
        return {"type": "cache_hit" if read_tokens else "unavailable"}
    reusable = previous.reusable_tokens
    missed = max(0, reusable - read_tokens)
    return {
        "type": "cache_miss",
        "reason": reason,
        "cache_missed_tokens": missed,
        "comparison_reusable_tokens": reusable,
    }
