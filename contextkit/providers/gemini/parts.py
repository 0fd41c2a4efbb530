"""Gemini's parts: neutral parts, calls, results and tools in its words, and back.

Field names are those of `google.genai.types` 3.4, in the spelling of the wire. Projected: the system prompt takes text
only; what has another media type than a call of this API may carry is text; a result's text stands under `output`, or
`error`, its media beside it.
"""

from __future__ import annotations

import re

from contextkit.canonical import Json
from contextkit.layout.normal_form import normal
from contextkit.providers.blockwise.raw import FREE, RAW, standard
from contextkit.providers.blockwise.speaker import text
from contextkit.providers.foreign import UNNAMED
from contextkit.providers.neutral.parts import Block, Parts, Tools, verbatim
from contextkit.providers.provider import ReplyCall

WIRE = "gemini"
_BY_ENDING = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "pdf": "application/pdf",
}


def spelled(value: Json) -> Json:
    """A body or a response in the wire's own spelling: Google takes field names with underscores too, and its SDK
    writes both.

    >>> spelled({"inline_data": {"mime_type": "image/png"}, "args": {"file_name": "a"}})
    {'inlineData': {'mimeType': 'image/png'}, 'args': {'file_name': 'a'}}
    """
    if isinstance(value, dict):
        named = ((_UNDERSCORED.sub(lambda found: found[1].upper(), key), item) for key, item in value.items())
        return {key: item if key in FREE else spelled(item) for key, item in named}
    return [spelled(item) for item in value] if isinstance(value, list) else value


_UNDERSCORED = re.compile(r"(?<=[a-z0-9])_([a-z0-9])")


def _media(part: Block) -> Json:
    if "url" in part:
        kind = _BY_ENDING.get(part["url"].partition("?")[0].rpartition(".")[2].lower())
        return {"fileData": {"fileUri": part["url"], **({"mimeType": kind} if kind else {})}}
    if part["media_type"] == "text/plain":
        return text(f"{part['title']}\n\n{part['data']}" if "title" in part else part["data"])
    return {"inlineData": {"data": part["data"], "mimeType": part["media_type"]}}


def _candidates(block: Block) -> list[Json]:
    data, file = block.get("inlineData") or {}, block.get("fileData") or {}
    media = (
        {"url": file.get("fileUri", "")}
        if file
        else {"media_type": data.get("mimeType", ""), "data": data.get("data", "")}
    )
    kinds = (
        ("image", "document")
        if str(data.get("mimeType", file.get("mimeType"))).startswith("image/")
        else ("document", "image")
    )
    return [{"type": kind, **media} for kind in kinds] if data or file else []


PARTS = Parts(WIRE, text, dict.fromkeys(("image", "document"), _media), _candidates)


def call(name: str, tool: str, arguments: Json) -> Json:
    """A call as a part."""
    return {"functionCall": {"args": arguments, **_id(name), "name": tool}}


def _id(name: str) -> dict[str, Json]:
    """The id, where the call came with one."""
    return {} if name.startswith(UNNAMED) else {"id": name}


def called(block: Block, index: int) -> ReplyCall | None:
    """The call a part makes; this API may leave its id out."""
    made = block.get("functionCall")
    return ReplyCall(made.get("id") or f"{UNNAMED}{index}", made["name"], made.get("args") or {}) if made else None


def result(body: Block) -> Json:
    """What a tool gave."""
    kept_whole = (
        body["content"][0].get("block")
        if len(body["content"]) == 1 and body["content"][0].get("wire") == WIRE
        else None
    )
    if kept_whole and "functionResponse" in kept_whole:
        return kept_whole
    parts = PARTS.blocks(body["content"])
    texts = [found["text"] for found in parts if found.keys() == {"text"}]
    media = [found for found in parts if found.keys() != {"text"}]
    given = {"error" if body["is_error"] else "output": texts[0] if len(texts) == 1 else texts}
    beside = {"parts": media} if media else {}
    return {
        "functionResponse": {
            **_id(body["call_id"]),
            "name": body["name"] or body["call_id"],
            **beside,
            "response": given,
        }
    }


def resulted(block: Block, calls: list[ReplyCall]) -> Json:
    """A part that answers a call, as the body of a result: by id, or as the first open call of that name, which is open
    no more.
    """
    inside = block.get("functionResponse")
    if not inside:
        return None
    found = next(
        (made for made in calls if made.id == inside.get("id") or ("id" not in inside and made.name == inside["name"])),
        None,
    )
    calls[:] = [made for made in calls if made is not found]
    told = inside.get("response") or {}
    key = next(iter(told), "output")
    texts = [told[key]] if isinstance(told.get(key), str) else told.get(key)
    content = [
        {"type": "text", "text": one} for one in (texts if isinstance(texts, list) else ()) if isinstance(one, str)
    ]
    name = found.id if found else str(inside.get("id", f"{UNNAMED}0"))
    content += map(PARTS.part, inside.get("parts") or [])
    body = {"call_id": name, "name": inside["name"], "content": content, "is_error": key == "error"}
    is_whole = normal(result(body)) == normal(block)
    return body if is_whole else {**body, "content": [verbatim(WIRE, block)]}


_HOLDING_RAW = frozenset({"inlineData", "thoughtSignature", "functionResponse"})


def tidied(block: Block) -> Block:
    """A part in its one spelling: base64 in the standard alphabet, no nulls."""
    plain = {key: value for key, value in block.items() if value is not None}
    found: Block = standard(plain, RAW[WIRE]) if _HOLDING_RAW & block.keys() else plain
    return found


def _tool(name: str, description: str, schema: Json) -> Json:
    """A function as Gemini declares it."""
    return {"name": name, "description": description, "parametersJsonSchema": schema}


def _function(block: Block) -> tuple[Json, Json, Json]:
    """What a tool of a request body says of a function."""
    return block.get("name"), block.get("description"), block.get("parametersJsonSchema")


TOOLS = Tools(WIRE, _tool, _function)


def saying(block: Block) -> str:
    """What a part says in words; nothing for a thought."""
    return "" if block.get("thought") else str(block.get("text", ""))
