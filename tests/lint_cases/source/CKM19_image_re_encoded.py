"""Images made anew for each request, and once."""

import base64
import io

from PIL import Image


def to_request(messages):
    out = []
    for place, message in enumerate(messages):
        picture = Image.open(message["path"])
        if place < len(messages) - 4:
            picture.thumbnail((1024, 768))  # expect: CKM19
        buffer = io.BytesIO()
        picture.save(buffer, format="JPEG", quality=70 if place else 90)  # expect: CKM19
        out.append({"role": "user", "content": base64.b64encode(buffer.getvalue()).decode()})
    return out


def to_request_alike(messages):
    out = []
    for message in messages:
        picture = Image.open(message["path"])
        picture.thumbnail((1024, 768))
        buffer = io.BytesIO()
        picture.save(buffer, format="JPEG", quality=70)
        out.append({"role": "user", "content": base64.b64encode(buffer.getvalue()).decode()})
    return out


def attach(messages, path):
    picture = Image.open(path)
    picture.thumbnail((1024, 768))
    buffer = io.BytesIO()
    picture.save(buffer, format="JPEG", quality=70)
    messages.append({"role": "user", "content": base64.b64encode(buffer.getvalue()).decode()})
