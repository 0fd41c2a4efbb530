"""The table of fixes: everything that `what_if` can change.

A new fix is a row here and, if it edits prompts, a function in `outline_edits` or an editor in `body_edits`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from contextkit.errors import UsageError
from contextkit.models import Model
from contextkit.whatif.body_edits import FreezeClock, KeepResults, SortTools
from contextkit.whatif.fix import Fix, LaneChange
from contextkit.whatif.outline_edits import leader_first, marked

FIXES: Mapping[str, Fix] = {
    fix.name: fix
    for fix in (
        Fix(
            "lifetime",
            "usage and times",
            'ask for the long lifetime where people or slow tools make the loop wait, the short one elsewhere: ttl="auto" of the adapter',
            ("lifetime",),
            lanes=(LaneChange(is_long=True), LaneChange(is_long=False)),
        ),
        Fix(
            "routing-key",
            "usage and times",
            "give each conversation a prompt_cache_key of its own, and keep below 15 calls a minute with one key",
            ("lifetime",),
            lanes=(LaneChange(is_keyed=True),),
        ),
        Fix(
            "breakpoints",
            "outlines",
            "mark the end of the system prompt, of the request before and of this one: Context does",
            ("lifetime",),
            outlines=marked,
        ),
        Fix(
            "sorted-tools",
            "request bodies",
            "sort the definitions by name before they are sent",
            ("lifetime",),
            bodies=SortTools,
        ),
        Fix(
            "clock-to-tail",
            "request bodies",
            "say the time once, when the conversation begins; what is new goes behind the newest message",
            ("lifetime",),
            bodies=FreezeClock,
        ),
        Fix(
            "no-pruning",
            "request bodies",
            "shorten a result before it is first sent, never after",
            ("lifetime",),
            bodies=KeepResults,
        ),
        Fix(
            "leader-first",
            "outlines",
            "start one call, the others once its response has begun: context.fan_out does",
            ("lifetime",),
            outlines=leader_first,
        ),
    )
}
"""Name → row; `prices-of` joins them where a model is named."""


def prices_of(model: Model) -> Fix:
    """Return the row that asks `model` instead, under its cache's rules and at today's prices."""
    return Fix(
        f"prices-of {model.name}",
        "usage and times",
        f"ask {model.name}; whether its answers are as good is another question",
        ("lifetime", "tokenizer"),
        lanes=(LaneChange(model=model),),
    )


def fixes_named(names: Sequence[str], models: Sequence[Model] = ()) -> list[Fix]:
    """Return the rows of these names, all of them for none, and one for each model.

    Raises `UsageError` for a name that is none.

    >>> [fix.name for fix in fixes_named(["lifetime"])]
    ['lifetime']
    """
    unknown = next((name for name in names if name not in FIXES), None)
    if unknown is not None:
        raise UsageError(f"{unknown!r} is no fix: use one of {', '.join(FIXES)}, or name a model for its prices")
    wanted = list(dict.fromkeys(names)) or ([] if models and not names else list(FIXES))
    return [*(FIXES[name] for name in wanted), *map(prices_of, models)]
