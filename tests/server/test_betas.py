"""Beta features come with their header; a beta name that no row knows is accepted, with a remark and never a refusal."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from contextkit import AnthropicMessages, Context
from contextkit.errors import UsageError
from contextkit.facts import load
from contextkit.log.entry import EffortChanged
from contextkit.server import LocalServer

HEADERS = {"x-api-key": "any", "anthropic-version": "2023-06-01"}
BODY: dict[str, Any] = {"model": "claude-opus-5-5", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]}
EFFORT = {"role": "system", "content": "Think less.", "output_config": {"effort": "low"}}
TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}
ADDED = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": TOOL}}
IN_BETA: dict[str, dict[str, Any]] = {
    "field": {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}},
    "display": {"thinking": {"type": "adaptive", "display": "updates"}},
    "effort of a message": {"messages": [*BODY["messages"], EFFORT]},
    "field of a breakpoint": {
        "system": [{"type": "text", "text": "Answer.", "cache_control": {"type": "ephemeral", "scope": "global"}}]
    },
    "tool change": {
        "tools": [{**TOOL, "name": "first"}],
        "messages": [*BODY["messages"], {"role": "system", "content": [ADDED]}],
    },
    "type of a block": {"messages": [{"role": "user", "content": [{"type": "compaction", "content": "So far."}]}]},
}
"""One body of each kind of feature that needs an opt-in."""


def posted(http: httpx2.Client, more: dict[str, Any], betas: str | None) -> httpx2.Response:
    headers = HEADERS if betas is None else {**HEADERS, "anthropic-beta": betas}
    return http.post("/v1/messages", json={**BODY, **more}, headers=headers)


@pytest.mark.parametrize("kind", IN_BETA)
def test_a_missing_opt_in_is_refused_and_an_unknown_beta_may_be_it(
    server: LocalServer, http: httpx2.Client, kind: str
) -> None:
    refused = [posted(http, IN_BETA[kind], betas) for betas in (None, "", "files-api-2025-04-14")]
    assert [(answer.status_code, "beta header" in answer.text) for answer in refused] == [(400, True)] * 3
    assert not server.findings
    named = [posted(http, IN_BETA[kind], f"files-api-2025-04-14, {name}-2027-01-01") for name in ("a", "a", "b")]
    assert [answer.status_code for answer in named] == [200] * 3, named[0].text
    assert [(found.kind, found.name) for found in server.findings] == [
        ("unknown_beta", "a-2027-01-01"),
        ("unknown_beta", "b-2027-01-01"),
    ]
    assert all("is not known: accepted" in answer.headers["x-contextkit-warning"] for answer in named)


def test_each_name_of_a_beta_opts_in_without_a_remark(server: LocalServer, http: httpx2.Client) -> None:
    for name in load.betas_for("messages.output_config"):
        assert posted(http, IN_BETA["effort of a message"], name).status_code == 200
    assert not server.findings


def test_hostile_names_stay_short_and_printable(server: LocalServer, http: httpx2.Client) -> None:
    names = [f"x\t{number}" + "y" * 500 for number in range(100)]  # within 64 KiB, h11's limit
    answer = posted(http, {}, ",".join(names))
    assert answer.status_code == 200
    assert len(server.findings) == 20
    assert all(found.text.isprintable() and len(found.text) < 400 for found in server.findings)


def test_the_context_sends_a_field_beside_a_beta_it_does_not_know() -> None:
    edits = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    with pytest.raises(UsageError, match="context-management-2025-06-27"):
        AnthropicMessages("claude-opus-5-5", max_tokens=64, context_management=edits)
    context = Context(
        AnthropicMessages("claude-opus-5-5", max_tokens=64, context_management=edits, betas=["context-care-2027-01-01"])
    )
    context.user("hi")
    assert json.loads(context.request().body)["context_management"] == edits


def test_an_effort_is_a_setting_of_a_message_under_each_name_of_its_beta() -> None:
    for name in load.betas_for("messages.output_config"):
        context = Context(AnthropicMessages("claude-opus-5-5", max_tokens=64, betas=[name]))
        context.user("hi")
        context.request()
        context.notice(EffortChanged("low"))
        assert {"effort": "low"} in [message.get("output_config") for message in context.request()["messages"]]
