"""image-re-encoded: an image that was sent before is encoded again, to other bytes.

## What it does
The builder opens, resizes or compresses pictures while it makes the request. A rule lowers the quality of older ones,
a newer version of the library compresses otherwise, or the encoder writes a time into the file. The picture is the
same, its base64 is not.

## Why it costs you
To the cache an image is the bytes, or what they decode to. A changed one is another image at the same place, and the
messages from there on are written again, at 1.25 times the input price on Anthropic. OpenAI takes bytes and `detail`
as part of the prefix; vLLM hashes the media into its blocks.

## Example
    def smaller(messages):
        for age, message in enumerate(reversed(messages)):
            for block in pictures_of(message):
                buffer = io.BytesIO()
                Image.open(paths[block["id"]]).save(buffer, format="JPEG", quality=80 if age < 4 else 30)
                block["source"] = base64_source(buffer.getvalue())

    smaller(messages)
    client.messages.create(model=MODEL, max_tokens=4096, messages=messages)

## Use instead
Encode once, when the picture comes in, and store the result with its digest:

    data = encode(picture)
    store.put(hashlib.sha256(data).hexdigest(), data)             # later requests read these bytes
    block = {"type": "image", "source": base64_source(data)}

A part of type `image` given to `context.user([...])` is kept as it was given, and sent so in each request.

## Detected by
- source: an image resized or saved while the history is written, in a way that depends on where its message stands.
- requests: a media block at the same place with data of other length or digest.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/lidge-jun/opencodex/issues/4532
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import orjson

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.history import MEDIA
from contextkit.lint.rules.shapes import differing_strings, paired
from contextkit.lint.rules.syntax import FUNCTIONS, IN_HISTORY, AnyFunction, inside, keyword, last_name, messages_of
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk
from contextkit.prompt.block import Block

_LONG = 40
"""Characters from which on a string may be the data of an image; shorter ones that differ are its media type."""


def _encoded(step: Step, change: Change) -> Evidence | None:
    pairs = paired(change) if change.level == "messages" else []
    if not pairs or not all(_is_re_encoded(*pair) for pair in pairs):
        return None
    was, now = pairs[0]
    return Evidence(
        f"the image at the same place has other data: {len(was.body):,} bytes were sent, {len(now.body):,} are now"
    )


def _is_re_encoded(was: Block, now: Block) -> bool:
    """Whether only data differs: strings without blanks inside of a picture or a result that holds one."""
    values = orjson.loads(was.body), orjson.loads(now.body)  # without markers, which come and go
    found = differing_strings(*values) if was.type == now.type else None
    is_media = was.type in MEDIA or any(
        word in was.body for word in (b'"image', b"data:image", b'"inline_data', b'"inlineData')
    )
    data = [pair for pair in found or () if any(map(_is_data, pair))]
    return is_media and bool(data) and all("/" in one for one, other in found or () if (one, other) not in data)


def _is_data(text: str) -> bool:
    return len(text) >= _LONG and not any(char.isspace() for char in text[:400])


# In code
# --------------------------------------------------------------------------------------------------------------------------


def _each_time(function: AnyFunction, view: View) -> Iterator[Hit]:
    """Images of a history are resized or saved again while it is written."""
    names = messages_of(function, view)
    for node in inside(function) if names else ():
        if isinstance(node, ast.For | ast.ListComp) and any(name in names for name in _targets(node)):
            yield from (
                Hit(call, "images of the history are made anew for each request: other bytes at the same place")
                for call in inside(node)
                if isinstance(call, ast.Call) and _encodes(call) and _moves(call, node)
            )


_PLACED = re.compile(
    r"(?:^|_)(?:i|idx|index|place|position|recent|last|newest|old|older|age|turns?|remaining|budget|total|tier)(?:_|$)"
)
"""Names of what differs from request to request for the same message."""


def _moves(call: ast.Call, loop: ast.AST) -> bool:
    """Whether how it is made depends on where the message stands, or on what else is sent: the same again gives the
    same bytes.
    """
    tests = [
        node.test
        for node in walk(loop)
        if isinstance(node, ast.If | ast.IfExp) and any(part is call for part in walk(node))
    ]
    given = [*call.args, *(one.value for one in call.keywords)]
    return any(_PLACED.search(word) for node in (*tests, *given) for word in _names_in(node))


def _names_in(node: ast.AST) -> list[str]:
    """The variables in an expression."""
    return [part.id for part in walk(node) if isinstance(part, ast.Name)]


def _targets(node: ast.For | ast.ListComp) -> list[str]:
    target = node.target if isinstance(node, ast.For) else node.generators[0].target
    return [part.id for part in walk(target) if isinstance(part, ast.Name)]


def _encodes(call: ast.Call) -> bool:
    """`picture.resize(…)`, `picture.thumbnail(…)`, `picture.save(…, quality=70)`."""
    name = last_name(call.func)
    return name in ("resize", "thumbnail", "resize_image", "compress_image") or (name == "save" and _has_quality(call))


def _has_quality(call: ast.Call) -> bool:
    return keyword(call, "quality", "format") is not None


HAZARD = Hazard(
    "CKM19",
    "image-re-encoded",
    "A",
    "error",
    source=(Pattern(FUNCTIONS, _each_time, ("resize", "thumbnail", "quality=", "compress_image"), also=(IN_HISTORY,)),),
    requests=(RequestRule("change", _encoded, 9),),
    confirmed_by=("messages_changed", "input_changed"),
)
