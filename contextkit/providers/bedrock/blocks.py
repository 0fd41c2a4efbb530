"""Bedrock Converse's content blocks: neutral parts, calls, results and tools in its words, and back.

Block fields are those of botocore 1.44, bedrock-runtime. What Converse has no words for is projected: a picture or
document behind a URL that is not on S3 is its URL, one of another format is its type in brackets; a document's name
keeps letters, digits and single blanks.
"""

from __future__ import annotations

import re

from contextkit.canonical import Json
from contextkit.providers.keyed_blocks import text
from contextkit.providers.neutral import JsonObject, Parts, Tools, call_id
from contextkit.providers.provider import ReplyCall

WIRE = "bedrock_converse"
_IMAGES = {f"image/{name}": name for name in ("png", "jpeg", "gif", "webp")}
_OFFICE = "application/vnd.openxmlformats-officedocument"
_DOCUMENTS = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "md",
    "text/plain": "txt",
    "application/msword": "doc",
    f"{_OFFICE}.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    f"{_OFFICE}.spreadsheetml.sheet": "xlsx",
}
"""Media type → format (ImageFormat, DocumentFormat)."""
_NAMED = re.compile(r"[^A-Za-z0-9\-()\[\]]+")
_LONGEST = 200
"""What the name of a document must not hold, and how long it may be (DocumentBlock.name)."""


def _media(part: JsonObject) -> Json:
    kind, url = part["type"], str(part.get("url", ""))
    formats = _IMAGES if kind == "image" else _DOCUMENTS
    if url:  # the format of a file is how its name ends
        ending = url.rpartition(".")[2].lower().replace("jpg", "jpeg")
        written = ending if ending in formats.values() else None
    else:
        written = formats.get(part["media_type"])
    if written is None or (url and not url.startswith("s3://")):
        return text(url or f"[{kind}]")
    title = _NAMED.sub(" ", str(part.get("title", kind))).strip()[:_LONGEST].strip() or kind
    if "url" in part:
        source: Json = {"s3Location": {"uri": part["url"]}}
    else:
        source = {"text" if part["media_type"] == "text/plain" else "bytes": part["data"]}
    return {kind: {"format": written, "source": source, **({"name": title} if kind == "document" else {})}}


def _candidates(block: JsonObject) -> list[Json]:
    kind = next(iter(block))
    inside = block[kind] if kind in ("image", "document") else {}
    source = inside.get("source") or {}
    media = next((media for media, name in (_IMAGES | _DOCUMENTS).items() if name == inside.get("format")), "")
    where = {"media_type": media, "data": source.get("text", source.get("bytes", ""))}
    if "s3Location" in source:
        where = {"url": source["s3Location"].get("uri")}
    return [{"type": kind, **where}, {"type": kind, **where, "title": inside.get("name")}] if source else []


PARTS = Parts(WIRE, text, dict.fromkeys(("image", "document"), _media), _candidates)


def call(name: str, tool: str, arguments: Json) -> Json:
    """A call as a block."""
    return {"toolUse": {"toolUseId": call_id(name), "name": tool, "input": arguments}}


def called(block: JsonObject, index: int) -> ReplyCall | None:
    """The call a block makes; None for a tool that Bedrock runs itself."""
    use = block.get("toolUse")
    if not use or use.get("type") == "server_tool_use":
        return None
    return ReplyCall(use["toolUseId"], use["name"], use["input"])


def saying(block: JsonObject) -> str:
    """Return the text of a block, cited text included."""
    cited = (block.get("citationsContent") or {}).get("content") or []
    return str(block.get("text") or "".join(part["text"] for part in cited))


def result(body: JsonObject) -> Json:
    """Render a tool result."""
    status = {"status": "error"} if body["is_error"] else {}
    return {"toolResult": {"toolUseId": call_id(body["call_id"]), "content": PARTS.blocks(body["content"]), **status}}


def resulted(block: JsonObject, calls: list[ReplyCall]) -> Json:
    """A block that answers a call, as the body of a result."""
    inside = block.get("toolResult")
    if not inside or inside.get("type"):
        return None
    content = [PARTS.part(item) for item in inside["content"]]
    return {"call_id": inside["toolUseId"], "name": "", "content": content, "is_error": inside.get("status") == "error"}


def tidied(block: JsonObject) -> JsonObject:
    """A block in its one spelling: a result that succeeded does not say so."""
    inside = block.get("toolResult")
    if not isinstance(inside, dict) or inside.get("status") != "success":
        return block
    return {"toolResult": {key: value for key, value in inside.items() if key != "status"}}


def _tool(name: str, description: str, schema: Json) -> Json:
    """A function as Converse sends it; a description must not be empty."""
    told = {"description": description} if description else {}
    return {"toolSpec": {"name": name, **told, "inputSchema": {"json": schema}}}


def _function(block: JsonObject) -> tuple[Json, Json, Json]:
    """Return the name, description and schema of a tool in a request body."""
    spec = block.get("toolSpec") or {}
    return spec.get("name"), spec.get("description", ""), (spec.get("inputSchema") or {}).get("json")


TOOLS = Tools(WIRE, _tool, _function)
