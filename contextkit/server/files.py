"""Files of OpenAI and Anthropic: uploaded as a form, listed, read and deleted; kept until the server is reset.

Takes headers, a path and a body, gives the response in the words of whoever is asked. Fields are those of
`openai/types/file_object.py` and `anthropic/types/beta/beta_file_metadata.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email import message_from_bytes, policy
from mimetypes import guess_type
from pathlib import PurePath

from contextkit.canonical import Json
from contextkit.server.answer import Outcome, answered, missing_key, refused
from contextkit.server.endpoints.codec import Codec
from contextkit.server.endpoints.table import MESSAGES
from contextkit.server.endpoints.validation import Refusal
from contextkit.server.state import REMEMBERED_BYTES, State, StoredFile

PATH = "/v1/files"
_PURPOSES = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")
"""Purposes that OpenAI takes (openai/types/file_purpose.py)."""


@dataclass(frozen=True, slots=True)
class FileRequest:
    """A request about files."""

    state: State
    codec: Codec
    files: dict[str, StoredFile]
    """Files of the workspace, by id."""
    name: str
    """Id of the file; empty where none is named."""
    query: Mapping[str, str]
    media_type: str
    """`Content-Type` of the body."""
    raw: bytes

    @property
    def is_anthropic(self) -> bool:
        """Return whether Anthropic's API is asked, not OpenAI's."""
        return self.codec is MESSAGES


FileAnswer = Json | bytes | Refusal
"""The value of a response, the bytes of a file, or why there is neither."""


def handle(
    state: State,
    codec: Codec,
    act: Callable[[FileRequest], FileAnswer],
    headers: Mapping[str, str],
    name: str,
    query: Mapping[str, str],
    raw: bytes,
) -> Outcome:
    """The response to a request about files."""
    with state.lock:
        files = state.files(codec.provider, headers.get(codec.workspace_header, ""))
        request = FileRequest(state, codec, files, name, query, headers.get("content-type", ""), raw)
        value = missing_key(codec, headers) or (_missing(request) if name and name not in files else act(request))
        if isinstance(value, Refusal):
            return refused(state, codec, value)
        if isinstance(value, bytes):
            outcome = answered(state, codec, {})
            kept = tuple(pair for pair in outcome.headers if pair[0] != "content-type")
            binary = ("content-type", "application/octet-stream")
            return replace(outcome, headers=(*kept, binary), chunks=(value,), length=len(value))
        return answered(state, codec, value)


def upload(request: FileRequest) -> FileAnswer:
    """`POST /v1/files`."""
    parts = form_parts(request.media_type, request.raw)
    if parts is None:
        return request.codec.error(400, "The request body must be a form: multipart/form-data.")
    sent, purpose = parts.get("file"), parts.get("purpose")
    if sent is None:
        text = "file: Field required" if request.is_anthropic else "Missing required parameter: 'file'."
        return request.codec.error(400, text)
    named = "" if purpose is None else purpose.content.decode("utf-8", "replace")
    if not request.is_anthropic and named not in _PURPOSES:
        text = f"'{named[:100]}' is not one of {list(_PURPOSES)} - 'purpose'"
        return request.codec.error(400, text if named else "Missing required parameter: 'purpose'.")
    prefix = "file_" if request.is_anthropic else "file-"
    name = f"{prefix}{request.state.number('file'):024d}"
    file_name = PurePath(sent.file_name.replace("\\", "/")).name or "unnamed"
    kind = sent.media_type or guess_type(file_name)[0] or "application/octet-stream"
    request.files[name] = StoredFile(name, file_name, kind, named, int(request.state.clock.now()), sent.content)
    n_bytes = sum(len(one.content) for one in request.files.values())
    while n_bytes > REMEMBERED_BYTES:  # the oldest give way
        n_bytes -= len(request.files.pop(next(iter(request.files))).content)
    return _described(request, request.files[name])


def listed(request: FileRequest) -> FileAnswer:
    """`GET /v1/files`: all of them on one page."""
    purpose = request.query.get("purpose")
    rows = [_described(request, one) for one in request.files.values() if purpose in (None, one.purpose)]
    if request.is_anthropic:
        return {"data": rows, "next_page": None, "has_more": False}
    ends = {"first_id": rows[0]["id"], "last_id": rows[-1]["id"]} if rows else {"first_id": None, "last_id": None}
    return {"object": "list", "data": rows, **ends, "has_more": False}


def described(request: FileRequest) -> FileAnswer:
    """`GET /v1/files/{id}`."""
    return _described(request, request.files[request.name])


def deleted(request: FileRequest) -> FileAnswer:
    """`DELETE /v1/files/{id}`."""
    del request.files[request.name]
    if request.is_anthropic:
        return {"id": request.name, "type": "file_deleted"}
    return {"id": request.name, "object": "file", "deleted": True}


def content(request: FileRequest) -> FileAnswer:
    """`GET /v1/files/{id}/content`. Anthropic gives back only what its own tools made."""
    if request.is_anthropic:
        return request.codec.error(400, f"File {request.name} is not downloadable")
    return request.files[request.name].content


ROUTES: tuple[tuple[str, str, Callable[[FileRequest], FileAnswer]], ...] = (
    ("POST", PATH, upload),
    ("GET", PATH, listed),
    ("GET", PATH + "/{name}", described),
    ("DELETE", PATH + "/{name}", deleted),
    ("GET", PATH + "/{name}/content", content),
)
"""Method, path, what answers."""


def _described(request: FileRequest, one: StoredFile) -> dict[str, Json]:
    if request.is_anthropic:
        at = datetime.fromtimestamp(one.created_at, UTC).isoformat().replace("+00:00", "Z")
        kind = {"type": "file", "mime_type": one.media_type, "downloadable": False}
        return {"id": one.id, **kind, "filename": one.file_name, "size_bytes": len(one.content), "created_at": at}
    kept = {"bytes": len(one.content), "created_at": one.created_at, "filename": one.file_name, "purpose": one.purpose}
    return {"id": one.id, "object": "file", "status": "processed", **kept}


def _missing(request: FileRequest) -> Refusal:
    text = f"File not found: {request.name}" if request.is_anthropic else f"No such File object: {request.name}"
    return request.codec.error(404, text)


@dataclass(frozen=True, slots=True)
class FormPart:
    """One field of a form."""

    file_name: str
    """Empty for a field that is no file."""
    media_type: str
    """Empty where it names none."""
    content: bytes


def form_parts(media_type: str, raw: bytes) -> dict[str, FormPart] | None:
    """The fields of a `multipart/form-data` body by their names; None where it is none, or its end is missing.

    >>> form_parts("multipart/form-data; boundary=x", b'--x\\r\\nContent-Disposition: form-data; name="a"\\r\\n\\r\\nb\\r\\n--x--')
    {'a': FormPart(file_name='', media_type='', content=b'b')}
    """
    head = message_from_bytes(
        b"Content-Type: " + media_type.encode("latin-1", "replace") + b"\r\n\r\n", policy=policy.HTTP
    )
    boundary = head.get_boundary()
    if head.get_content_type() != "multipart/form-data" or not boundary:
        return None
    _, *pieces = (b"\r\n" + raw).split(b"\r\n--" + boundary.encode("latin-1", "replace"))
    if not pieces or not pieces[-1].startswith(b"--"):
        return None
    parts: dict[str, FormPart] = {}
    for piece in pieces[:-1]:
        header, _, body = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        fields = message_from_bytes(header + b"\r\n\r\n", policy=policy.HTTP)
        name = fields.get_param("name", header="content-disposition")
        if isinstance(name, str):
            given = fields.get_content_type() if "content-type" in fields else ""
            parts[name] = FormPart(fields.get_filename() or "", given, body)
    return parts
