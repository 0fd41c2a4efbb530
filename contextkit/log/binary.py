"""What bytes become that a tool returned: a picture or a PDF that a model looks at, or a document that only a memory
takes.

Takes bytes, gives a part. Looks at the first bytes, and at what providers take: a picture that is refused would be
refused in every request from then on.
"""

from __future__ import annotations

import base64
import re

from contextkit.canonical import Json
from contextkit.log.media import pixels

BINARY = "application/octet-stream"
"""Media type of a document that no provider takes."""
_IMAGES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
)
"""First bytes → media type of the pictures that every provider with pictures takes (Anthropic vision docs; OpenAI
images guide)."""
MAX_IMAGE_BYTES = 3_750_000
"""Largest picture that is sent: Bedrock's 3.75 MB, the least of all (Anthropic: 5 MB of base64, which is as much)."""
MAX_IMAGE_PIXELS = 8_000
"""Of a side: Anthropic refuses larger pictures (platform.claude.com, vision)."""
MAX_PDF_BYTES = 4_500_000
"""Largest PDF that is sent: Bedrock's 4.5 MB, the least of all."""


def binary_part(data: bytes) -> Json:
    """An image or document part; a document of `BINARY` for everything else.

    >>> binary_part(b"%PDF-1.7 ... %%EOF")["media_type"], binary_part(b"\\x00\\x01")["media_type"]
    ('application/pdf', 'application/octet-stream')
    """
    coded = base64.b64encode(data).decode()
    media_type = next((media_type for magic, media_type in _IMAGES if magic.match(data)), None)
    if media_type is not None and _is_readable_image(data):
        return {"type": "image", "media_type": media_type, "data": coded}
    is_pdf = data.startswith(b"%PDF-") and b"%%EOF" in data[-1024:] and len(data) <= MAX_PDF_BYTES
    return {"type": "document", "media_type": "application/pdf" if is_pdf else BINARY, "data": coded}


def is_binary(part: Json) -> bool:
    """Whether a part is a document that no provider takes."""
    return bool(part["type"] == "document" and part.get("media_type") == BINARY)


def _is_readable_image(data: bytes) -> bool:
    size = pixels(data)
    return size is not None and len(data) <= MAX_IMAGE_BYTES and all(0 < side <= MAX_IMAGE_PIXELS for side in size)
