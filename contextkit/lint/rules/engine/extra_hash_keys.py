"""extra-hash-keys: a salt, an adapter or another extra key enters the hash of the blocks.

## What it does
Finds `cache_salt`, LoRA names, `extra_key` or prompt embeddings that vary from request to request.

## Why it costs you
vLLM hashes the salt into the first block, and every later block into the next: another salt is another cache from the first token on.
Adapter names, hashes of images and embeddings count in each block. A random salt switches caching off while it seems to be on; an
adapter per user gives each of them a cache of their own for the very same system prompt.

## Example
    client.chat.completions.create(model=MODEL, messages=messages, extra_body={"cache_salt": secrets.token_hex(16)})

## Use instead
A salt for each domain of trust, not for each call: one per tenant is enough to keep tenants from measuring each other's prompts:

    client.chat.completions.create(model=MODEL, messages=messages, extra_body={"cache_salt": tenant.salt})

## Detected by
- source: a random value, an id or the clock flows into the salt.
- requests: salt or adapter differ within a conversation.
- guard: named as what explains a bill that comes back short of the prediction.
- provider: `cached_tokens` is 0; engines give no reason.

## References
- https://github.com/vllm-project/vllm/issues/44701
- https://github.com/vllm-project/vllm/issues/23301
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule, Step
from contextkit.lint.source.rule import Flow

_KEYS = ("cache_salt", "extra_key", "lora_path", "lora_name", "lora_request", "lora_adapter")
"""Fields of vLLM and SGLang that enter the hash of every block (vLLM's and SGLang's `protocol.py`)."""


def _other_key(step: Step) -> Evidence | None:
    key = next((name for name in _KEYS if _of(step.before, name) != _of(step.after, name)), None)
    if key is None:
        return None
    return Evidence(
        f"{key} is another one than in the call before: the engine keeps a cache of its own for each value",
        path=key,
        was=_shown(_of(step.before, key)),
        now=_shown(_of(step.after, key)),
    )


def _of(sent: RecordedCall, name: str) -> object:
    return sent.params.get(name)


def _shown(value: object) -> str:
    """A salt may be a secret: how it begins tells two of them apart."""
    text = "" if value is None else str(value)
    return text if len(text) <= 8 else f"{text[:4]}…"


HAZARD = Hazard(
    "CKE03",
    "extra-hash-keys",
    "A",
    "error",
    source=(
        Flow(
            ("id", "clock", "choice"),
            ("salt",),
            "{source} varies with each call and reaches {sink}: nothing is found again",
        ),
    ),
    requests=(RequestRule("step", _other_key),),
)
