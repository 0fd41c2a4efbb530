"""The table of fixes: everything that `what_if` can change.

Takes names, gives rows. A new fix is a row here and, where it edits prompts, a function or an editor in `edits/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from contextkit.analysis.counterfactual.body_edits import FreezeClock, KeepResults, SortTools
from contextkit.analysis.counterfactual.fix import Fix, LaneChange
from contextkit.analysis.counterfactual.outline_edits import bridged, leader_first
from contextkit.errors import UsageError
from contextkit.models import Model

_LIVES = ("lifetime", "unexplained")

FIXES: Mapping[str, Fix] = {
    fix.name: fix
    for fix in (
        Fix(
            "ttl-1h",
            "usage and times",
            "every write asks for the model's longest lifetime (Anthropic 1h, OpenAI from 5.6 on 12h)",
            'ask for the long lifetime: cache_control ttl "1h", AnthropicMessages(..., ttl="1h")',
            _LIVES,
            lane=LaneChange(is_long=True),
        ),
        Fix(
            "ttl-1h-per-lane",
            "usage and times",
            "the longest lifetime in those lanes where it is the cheaper choice",
            "ask for the long lifetime where people or slow tools make the loop wait, the short one elsewhere",
            _LIVES,
            lane=LaneChange(is_long=True, is_per_lane=True),
        ),
        Fix(
            "keep-alive",
            "usage and times",
            "a ping 30 s before the prefix dies, up to an hour, a read and one output token each",
            "send the last request again with max_tokens 0 or 1 before the lifetime ends, until it no longer pays",
            ("lifetime", "pinging", "pings"),
            lane=LaneChange(has_pings=True),
        ),
        Fix(
            "bridging-marker",
            "outlines",
            "a breakpoint where the request before ended, where no other looks back that far",
            "mark the end of the request before as well: Context does",
            ("lifetime",),
            outlines=bridged,
        ),
        Fix(
            "sorted-tools",
            "request bodies",
            "tool definitions in the order of their names",
            "sort the definitions by name before they are sent",
            ("lifetime",),
            bodies=SortTools,
        ),
        Fix(
            "clock-to-tail",
            "request bodies",
            "dates, times and ids in system text stay as they began, new values are told at the tail",
            "say the time once, when the conversation begins; what is new goes behind the newest message",
            ("lifetime",),
            bodies=FreezeClock,
        ),
        Fix(
            "no-pruning",
            "request bodies",
            "a tool result stays what it was when it was first sent",
            "shorten a result before it is first sent, never after",
            ("lifetime",),
            bodies=KeepResults,
        ),
        Fix(
            "leader-first",
            "outlines",
            "calls that share a prefix wait until the first of them begins to answer",
            "start one call, the others once its response has begun: economics.fanout plans it",
            ("lifetime",),
            outlines=leader_first,
        ),
    )
}
"""Name → row; `prices-of` joins them where a model is named."""


def prices_of(model: Model) -> Fix:
    """The row that asks `model` instead, under its cache's rules and at today's prices."""
    return Fix(
        f"prices-of {model.name}",
        "usage and times",
        f"every call asks {model.name}: its cache's rules, its tokenizer, its prices of today",
        f"ask {model.name}; whether its answers are as good is another question",
        ("lifetime", "tokenizer"),
        lane=LaneChange(model=model),
    )


def fixes_named(names: Sequence[str], models: Sequence[Model] = ()) -> list[Fix]:
    """The rows of these names, all of them for none, and one for each model.

    Raises `UsageError` for a name that is none.

    >>> [fix.name for fix in fixes_named(["ttl-1h"])]
    ['ttl-1h']
    """
    unknown = next((name for name in names if name not in FIXES), None)
    if unknown is not None:
        raise UsageError(f"{unknown!r} is no fix: use one of {', '.join(FIXES)}, or name a model for its prices")
    wanted = list(dict.fromkeys(names)) or ([] if models and not names else list(FIXES))
    return [*(FIXES[name] for name in wanted), *map(prices_of, models)]
