"""isolation-boundary: the credential changes, and with it the organisation or workspace that owns the cache.

## What it does
Finds clients built with a key from a pool that rotates by call, by load or after a 429.

## Why it costs you
Entries belong to an organisation, and on the Claude API, Claude on AWS and Foundry to a workspace inside it; Bedrock and Google Cloud
keep them per organisation. A pool of five accounts is five caches, each written at 1.25 times input and read one call in five. On newer
Claude models thinking is bound to its account too: replayed under another key it is dropped or refused.

## Example
    def client():
        return anthropic.Anthropic(api_key=random.choice(KEYS))

## Use instead
One credential for a session, chosen at its start; rotate between sessions:

    class Session:
        def __init__(self, keys):
            self.client = anthropic.Anthropic(api_key=keys.take())

## Detected by
- source: a random or rotating credential given to a client outside of what runs once.
- requests: the account or project in the model's name, or Fireworks' key of isolation, differs within a session; keys
  themselves are never recorded.
- guard: the same, before it is sent; the guard does not look at credentials.
- provider: silent, or `previous_message_not_found`, since the other account has never seen the message.

## References
- https://github.com/NousResearch/hermes-agent/issues/58747
- https://platform.claude.com/docs/en/build-with-claude/prompt-caching#cache-storage-and-sharing
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.rules.callsites import keyword, last_name
from contextkit.lint.rules.settings import Differs, account_of, differs, is_other_model
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax.pieces import walk
from contextkit.lint.source.tables import sanitizers
from contextkit.lint.trace.rule import Evidence, RequestRule, Step

_PATHS = dict.fromkeys(("openai_chat", "openai_responses"), ("prompt_cache_isolation_key",))
_CLIENTS = re.compile(r"^(?:Async)?(?:Anthropic|OpenAI|AzureOpenAI|AnthropicBedrock|AnthropicVertex)$|^a?completion$|^genai\.Client$")
_ROTATES = re.compile(r"^_*(?:next|get_next|rotate|pick|random)(?:_\w+)?$")
_KEYS = re.compile(r"key|cred|token|account", re.IGNORECASE)


def _crossed(step: Step) -> Evidence | None:
    """Another account or project in the model's name, or another key of isolation."""
    was, now = account_of(step.before), account_of(step.after)
    if was and now and was != now and not is_other_model(step):
        return Differs("model", was, now).evidence(f"account {now} is asked after {was}, and their caches are apart")
    found = differs(step, _PATHS)
    return found.evidence("the key that keeps caches apart is another one than in the call before") if found else None


def _rotating(node: ast.Call, view: View) -> Iterator[Hit]:
    """`Anthropic(api_key=random.choice(KEYS))`."""
    value = keyword(node, "api_key")
    function = view.function()
    if value is None or function is None or function.name in sanitizers.ONCE or not _CLIENTS.match(last_name(node.func)):
        return
    if "choice" in view.kinds(value) or _takes_next(value):
        yield Hit(value, "the credential rotates, and the cache belongs to the account behind it")


def _takes_next(node: ast.expr) -> bool:
    """`next(keys)`, `pool.next_key()`."""
    if not isinstance(node, ast.Call) or not _ROTATES.match(last_name(node.func)):
        return False
    return any(_KEYS.search(last_name(part)) for part in walk(node))


HAZARD = Hazard(
    "CKR08", "isolation-boundary", "A", "error",
    source=(Pattern((ast.Call,), _rotating, ("api_key",), is_near=True, names=("api_key",)),), requests=(RequestRule("step", _crossed),),
)  # fmt: skip
