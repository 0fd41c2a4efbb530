"""What Anthropic refuses of features in beta, and what other platforms refuse of all of them.

Sources: `contextkit/providers/notices.py` for headers, `anthropic.types` 2.11 (compaction_*_error_details.py,
thread_unsupported_request_error_details.py, beta/message_create_params.py), context editing, compaction and platform
docs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from contextkit.canonical import Json
from contextkit.providers.anthropic.blocks import thinking_in
from contextkit.providers.anthropic.messages import without
from contextkit.providers.notices import BINDING, BLOCKS, MESSAGE_FIELDS, lacking
from contextkit.server.refusals.anthropic_shape import NEW_VERSION, VERSIONS, invalid, placed
from contextkit.server.refusals.refusal import ARRAY, OBJECT, WHOLE, Asked, Early, Refusal, Sent

_CLAUDE_API = ("diagnostics", "inference_geo", "mcp_servers", "container", "thread", "fallbacks", "speed")
_NOT_THERE: Mapping[str, tuple[str, ...]] = {
    "Amazon Bedrock": ("cache_control", "compaction", *_CLAUDE_API),
    "Google Cloud": _CLAUDE_API,
}
"""Platform → fields it does not take. The marker is what the prompt-caching docs say of InvokeModel, compaction what
its own page says, diagnostics are the Claude API's alone; the rest is read from the feature pages' lists of platforms
and not certain."""
_VERSIONS: Mapping[str, tuple[str, ...]] = {
    "Amazon Bedrock": ("bedrock-2023-05-31", *VERSIONS),
    "Google Cloud": ("vertex-2023-10-16", *VERSIONS),
}
_EARLIER = ("-opus-4-6", "-opus-4-5", "-sonnet-4-6", "-sonnet-4-5", "-haiku-4-5")
"""Models from before Claude 4.7, to which Bedrock refuses the newest version (versioning docs)."""
_EDITS = ("clear_tool_uses_20250919", "clear_thinking_20251015", "compact_20260112")
_LEAST_COMPACTED = 50_000


def opted_in(sent: Sent) -> Iterator[Refusal]:
    """What is in beta comes with its header."""
    given = _betas(sent)
    for row in lacking(sent.body, given):
        yield _unopened(row.field, row.headers)
    for at in placed(sent.body):
        headers = BLOCKS.get(str(at.block.get("type")), ())
        if headers and not given & set(headers):
            yield _unopened(at.path, headers)
    for index, message in enumerate(sent.body["messages"]):
        for name, header in MESSAGE_FIELDS.items() if isinstance(message, dict) else ():
            if message.get(name) is not None and header not in given:
                yield _unopened(f"messages.{index}.{name}", (header,))


def _unopened(place: str, headers: tuple[str, ...]) -> Refusal:
    return invalid(f"{place}: Extra inputs are not permitted without the beta header {headers[0]}")


def _betas(sent: Sent) -> set[str]:
    return {name.strip() for name in str(sent.headers.get("anthropic-beta", "")).split(",")}


def edits(sent: Sent) -> Iterator[Refusal]:
    """Edits that are known, thinking first, each with a trigger that is one."""
    listed = (sent.body.get("context_management") or {}).get("edits") or []
    if not ARRAY.holds(listed) or not all(map(OBJECT.holds, listed)):
        yield invalid("context_management.edits: Input should be a valid array of objects")
    kinds = [edit.get("type") for edit in listed]
    for index, (kind, edit) in enumerate(zip(kinds, listed, strict=True)):
        place = f"context_management.edits.{index}"
        if kind not in _EDITS:
            yield invalid(f"{place}: Input tag found using 'type' does not match any of the expected tags")
        for name in ("trigger", "keep", "clear_at_least"):
            yield from _measured(f"{place}.{name}", edit.get(name))
        trigger = edit.get("trigger") or {}
        if kind == "clear_thinking_20251015" and index:
            yield invalid(f"{place}: `clear_thinking_20251015` must be the first edit")
        if kind == "compact_20260112" and trigger.get("value", _LEAST_COMPACTED) < _LEAST_COMPACTED:
            yield invalid(f"{place}.trigger.value: Input should be greater than or equal to {_LEAST_COMPACTED}")
    if len(set(kinds)) < len(kinds):
        yield invalid("context_management.edits: each type of edit may be given once")


def _measured(place: str, value: Json) -> Iterator[Refusal]:
    if value is not None and value != "all" and not OBJECT.holds(value):
        yield invalid(f"{place}: Input should be an object")
    elif OBJECT.holds(value) and value.get("type") != "all" and not WHOLE.holds(value.get("value")):
        yield invalid(f"{place}.value: Input should be a valid integer")


def compactions(sent: Sent) -> Iterator[Refusal]:
    """A signed compaction stands first, and alone; a request for one edits nothing."""
    if sent.body.get("compaction") is not None and sent.body.get("context_management") is not None:
        yield invalid("compaction: cannot be combined with context_management")
    signed = [
        at.path
        for at in placed(sent.body)
        if at.block.get("type") == "compaction" and at.block.get("signature") is not None
    ]
    if len(signed) > 1:
        yield _coded(f"{signed[1]}: more than one signed `compaction` block", "compaction_block_ambiguous")
    if signed and signed[0] != "messages.0.content.0":
        yield _coded(
            f"{signed[0]}: a signed `compaction` block must come first in `messages`", "compaction_block_misplaced"
        )


def threadless(sent: Sent) -> Iterator[Refusal]:
    """Threads are held by Anthropic, not by this server."""
    if sent.body.get("thread") is not None:
        yield _coded(
            "thread: this server holds no threads. Send the full conversation without `thread`",
            "thread_unsupported_request",
        )


def _coded(message: str, code: str) -> Refusal:
    return replace(invalid(message), code=code)


def platform(name: str) -> Early:
    """What one platform refuses of what the Claude API takes."""

    def check(sent: Sent) -> Iterator[Refusal]:
        version = sent.body.get("anthropic_version", sent.headers.get("anthropic-version"))
        if version not in _VERSIONS[name]:
            yield invalid(
                "anthropic_version: Field required" if version is None else "anthropic_version: not a valid version"
            )
        if name == "Amazon Bedrock" and version == NEW_VERSION and str(sent.body.get("model")).endswith(_EARLIER):
            yield invalid(f"anthropic_version: {NEW_VERSION} needs Claude 4.7 or later on {name}")
        yield from (
            invalid(f"{field}: not supported on {name}")
            for field in _NOT_THERE[name]
            if sent.body.get(field) is not None
        )

    return check


def dropped(asked: Asked, ordinals: tuple[int, ...]) -> Asked | None:
    """The request without thinking that no longer holds, where it asks for that; None where it does not."""
    binding = (asked.sent.body.get("thinking") or {}).get("block_binding") or {}
    if binding.get("prefix_mismatch_behavior") != "drop_block":
        return None
    layout = asked.parsed.layout
    places = thinking_in(layout.track, layout.n)
    return replace(asked, parsed=without(asked.parsed, [places[ordinal] for ordinal in ordinals]), dropped=ordinals)


def transformations(asked: Asked) -> dict[str, Json]:
    """`input_transformations`, for whoever has opted in."""
    if BINDING not in _betas(asked.sent):
        return {}
    paths = [
        at.path
        for at in placed(asked.sent.body)
        if at.role == "assistant" and str(at.block["type"]).endswith("thinking")
    ]
    rows = (
        {"type": "thinking_dropped", "path": paths[each], "reason": "prefix_binding_mismatch"} for each in asked.dropped
    )
    return {"input_transformations": list(rows)}
