"""Source rules of CKL06 ttl-silently-downgraded."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.callsites import field, mentions, text_of
from contextkit.lint.rules.marking import constant, resolved
from contextkit.lint.source.rule import Flow, Hit, Pattern, View

_TTLS = ("1h", "5m")

_SWITCH = re.compile(
    r"(?i)flag|feature|experiment|telemetry|tier|plan|subscri|quota|overage|gate|getenv|environ|enabled|disabled|rollout"
)


def _by_flag(node: ast.Dict, view: View) -> Iterator[Hit]:
    """`{"type": "ephemeral", "ttl": "1h" if flags.long else "5m"}`."""
    if text_of(field(node, "type")) != "ephemeral":
        return
    value = resolved(field(node, "ttl"), view)
    if (
        isinstance(value, ast.IfExp)
        and mentions(value.test, _SWITCH)
        and constant(value.body) != constant(value.orelse)
    ):
        yield Hit(
            value,
            f"the lifetime of a cache marker depends on `{ast.unparse(value.test)}`: it may change without a word",
        )


def _by_branch(node: ast.Assign, view: View) -> Iterator[Hit]:
    """`if flags.long_cache: marker["ttl"] = "1h"`."""
    branch = next((above for above in reversed(view.parents()) if isinstance(above, ast.If)), None)
    if constant(node.value) in _TTLS and branch is not None and node in branch.body and mentions(branch.test, _SWITCH):
        yield Hit(
            node,
            f"the lifetime of a cache marker depends on `{ast.unparse(branch.test)}`: it may change without a word",
        )


SOURCE = (
    Flow(("flag",), ("ttl",), "the lifetime asked for depends on {source}: it may change without a word"),
    Pattern((ast.Dict,), _by_flag, ("ttl",), is_near=True, also=(("ephemeral",),), names=("ttl",)),
    Pattern((ast.Assign,), _by_branch, ("ephemeral",), names=("ttl",)),
)
