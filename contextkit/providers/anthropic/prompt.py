"""What Anthropic's cache sees of a request: what is left after edits, what each level is keyed on, and where the marks
stand.

Takes a layout and the fields of a request, gives a prompt. Source of every rule: the prompt-caching docs
(platform.claude.com/docs/en/build-with-claude/prompt-caching).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.canonical import Json
from contextkit.layout.breakpoints import LOOKBACK
from contextkit.layout.layout import Layout
from contextkit.layout.track import Track
from contextkit.providers.anthropic.editing import EFFECTS, SERVED, seen
from contextkit.providers.cutting import expect
from contextkit.providers.namespaces import MESSAGES, SYSTEM, TOOLS, Keying, keyed

TTLS = {"5m": 300, "1h": 3600}
"""`cache_control.ttl` → seconds (anthropic/types/cache_control_ephemeral_param.py)."""
KEYING = Keying(
    levels={
        "model": TOOLS,
        "inference_geo": TOOLS,
        "speed": SYSTEM,
        "container.skills": SYSTEM,
        **dict.fromkeys(
            ("tool_choice", "thinking", "output_config.effort", "output_config.format", "output_config.task_budget"),
            MESSAGES,
        ),
    },
    neutral=frozenset(
        {
            "max_tokens",
            "stop_sequences",
            "metadata",
            "stream",
            "service_tier",
            "cache_control",
            "diagnostics",
            "temperature",
            "top_p",
            "top_k",
            "betas",
            "context_management",
            "compaction",
            "mcp_servers",
            "container",
            "fallbacks",
            "fallback_credit_token",
            "billing_policy",
            "anthropic_version",
            "anthropic_beta",
            "thinking.display",
            "thinking.block_binding",
        }
    ),
    defaults={
        "speed": "standard",
        "tool_choice": {"type": "auto"},
        "thinking": {"type": "disabled"},
        "output_config.effort": "high",
    },
    flags={"image": MESSAGES, "citations": SYSTEM, "web_search": SYSTEM, "web_fetch": SYSTEM},
)
"""What invalidates what (prompt-caching docs). Not published, and assumed: inference_geo separates pools;
`output_config.format` costs the messages, as the structured outputs docs say, and no level before them; the list of
skills stands in the system prompt; the rest of a container, MCP servers beside their toolset, and a fallback's own
model are in no key."""
_SPLIT = {
    "output_config": ("effort", "format", "task_budget"),
    "thinking": ("display", "block_binding"),
    "container": ("skills",),
}
"""Parameter → fields of it that are keyed apart from the rest of it, each as `parameter.field`."""


def prompt(layout: Layout, params: Mapping[str, Json], dropped: Collection[int] = ()) -> Prompt:
    """The prompt of a request: what edits leave, keyed, with the marks it carries and those the API sets.

    Without `dropped` segments.
    """
    track, n = seen(layout, params, dropped)[0], layout.n
    flags = layout.track.raised(n)
    marks = _with_automatic(layout, params.get("cache_control"))
    marks = _with_served(track, n, marks) if SERVED in flags and marks else marks
    return keyed(KEYING, dict(_split(params)), tuple(flag for flag in flags if flag not in EFFECTS), track, n, marks)


def _split(params: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """Parameters, the fields that count by themselves apart."""
    for name, value in params.items():
        fields = _SPLIT.get(name, ()) if isinstance(value, dict) else ()
        rest = {key: inner for key, inner in value.items() if key not in fields} if fields else value
        yield from ((f"{name}.{field}", value.get(field)) for field in fields)
        yield from ((name, rest),) if rest or not fields else ()


def _with_automatic(layout: Layout, marker: Json) -> tuple[Breakpoint, ...]:
    """A top-level `cache_control` marks the last block that can carry one, unless that one is marked."""
    if marker is None:
        return layout.breakpoints
    place = next((i for i in range(layout.n - 1, -1, -1) if layout.track.marks[i] >= 0), None)
    if place is None or any(mark.segment == place for mark in layout.breakpoints):
        return layout.breakpoints
    return (*layout.breakpoints, Breakpoint(place, lifetime(marker), LOOKBACK))


def _with_served(track: Track, n: int, marks: tuple[Breakpoint, ...]) -> tuple[Breakpoint, ...]:
    """What a server's tool gave is marked for five minutes where anything is (prompt-caching docs): the last of it.

    Where a mark behind it asks for longer it is not, which is assumed.
    """
    place = next((i for i in range(n - 1, -1, -1) if track.runs[i] == SERVED), None)
    if place is None or any(
        mark.segment == place or (mark.segment > place and mark.ttl_seconds > TTLS["5m"]) for mark in marks
    ):
        return marks
    return tuple(sorted((*marks, Breakpoint(place, TTLS["5m"], LOOKBACK)), key=lambda mark: mark.segment))


def lifetime(marker: Json) -> int:
    """Seconds a marker asks for."""
    ttl = expect(marker, dict, "cache_control", "an object").get("ttl") or "5m"
    return TTLS[expect(ttl if ttl in tuple(TTLS) else None, str, "cache_control.ttl", "'5m' or '1h'")]
