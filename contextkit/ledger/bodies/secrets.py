"""Secrets inside a request body, covered before anybody keeps or shows it.

Takes the bytes of a body, gives as many: a secret is replaced by a star for each of its bytes, so every offset stays true.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Secret:
    """One kind of secret, as it stands in JSON text."""

    sign: bytes
    """Stands in every one; a body without it is not searched."""
    pattern: re.Pattern[bytes]
    """All of it; group 1 is what is covered."""


SECRETS = (
    Secret(b"sk-", re.compile(rb"\bsk-([A-Za-z0-9_-]{16,})")),
    Secret(b"earer ", re.compile(rb"\b[Bb]earer +([A-Za-z0-9._~+/=-]{12,})")),
    Secret(b"AKIA", re.compile(rb"\bAKIA([0-9A-Z]{16})\b")),
    Secret(b"ASIA", re.compile(rb"\bASIA([0-9A-Z]{16})\b")),
    Secret(b"gh", re.compile(rb"\bgh[pousr]_([A-Za-z0-9]{20,})")),
    Secret(b"github_pat_", re.compile(rb"\bgithub_pat_([A-Za-z0-9_]{20,})")),
    Secret(b"xox", re.compile(rb"\bxox[abprs]-([A-Za-z0-9-]{10,})")),
    Secret(b"AIza", re.compile(rb"\bAIza([0-9A-Za-z_-]{35})")),
    Secret(b"PRIVATE KEY-----", re.compile(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----((?:(?!-----END)(?:\\.|[^\"\\]))+)")),
)  # fmt: skip
"""What is covered: keys of OpenAI and Anthropic, bearer tokens, AWS, GitHub, Slack and Google keys, private keys in PEM."""


def redacted(body: bytes) -> bytes:
    """`body` with every secret of the table covered, byte for byte as long.

    >>> redacted(b'{"text":"my key is AKIAIOSFODNN7EXAMPLE, keep it"}')
    b'{"text":"my key is AKIA****************, keep it"}'
    """
    for secret in SECRETS:
        if secret.sign in body:
            body = secret.pattern.sub(_covered, body)
    return body


def _covered(match: re.Match[bytes]) -> bytes:
    start, end = (place - match.start() for place in match.span(1))
    whole = match[0]
    return whole[:start] + b"*" * (end - start) + whole[end:]
