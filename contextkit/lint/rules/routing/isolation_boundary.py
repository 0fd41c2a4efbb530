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
- source: a random or rotating credential given to a client outside of what runs once, by chance, from an iterator or by a counter.
- requests: the account or project in the model's name, a Google Cloud project in the address, or Fireworks' key of
  isolation differs within a session; keys themselves are never recorded.
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
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.callsites import keyword, last_name, takes_next
from contextkit.lint.rules.settings import Differs, accounts, differs, is_other_model
from contextkit.lint.source import sanitizers
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk

_PATHS = dict.fromkeys(("openai_chat", "openai_responses"), ("prompt_cache_isolation_key",))
_CLIENTS = re.compile(
    r"^(?:Async)?(?:Anthropic|OpenAI|AzureOpenAI|AnthropicBedrock|AnthropicVertex)$|^a?completion$|^with_options$"
)
_GEMINI = ("google.genai.Client",)
_ROTATES = re.compile(r"^_*(?:next|get_next|rotate|pick|random)(?:_\w+)?$")
_COUNTS = re.compile(
    r"^_*(?:i|n|idx|index|counter|count|n_calls|calls|cursor|turn|(?:\w+_)(?:idx|index|counter|count|cursor))$"
)
"""Names of a number that goes up with the calls."""
_KEYS = re.compile(r"key|cred|token|account", re.IGNORECASE)


def _crossed(step: Step) -> Evidence | None:
    """Another account or project in the model's name or the address, or another key of isolation."""
    was, now = accounts(step)
    if was and now and was != now and not is_other_model(step):
        return Differs("model", was, now).evidence(f"account {now} is asked after {was}, and their caches are apart")
    found = differs(step, _PATHS)
    return found.evidence("the key that keeps caches apart is another one than in the call before") if found else None


def _rotating(node: ast.Call, view: View) -> Iterator[Hit]:
    """`Anthropic(api_key=random.choice(KEYS))`."""
    value = keyword(node, "api_key")
    function = view.function()
    if value is None or function is None or function.name in sanitizers.ONCE or not _takes_credential(node, view):
        return
    if "choice" in view.kinds(value) or takes_next(value) or _asks_for_next(value) or _in_turn(value, view):
        yield Hit(value, "the credential rotates, and the cache belongs to the account behind it")


def _takes_credential(node: ast.Call, view: View) -> bool:
    """`Anthropic(api_key=…)`, `client.with_options(api_key=…)`, Gemini's `Client(api_key=…)`."""
    return bool(_CLIENTS.match(last_name(node.func))) or view.dotted(node) in _GEMINI


def _in_turn(node: ast.expr, view: View) -> bool:
    """`keys[calls % len(keys)]`, and `keys[self.index]` in a class that says `self.index = (self.index + 1) %
    len(keys)`.
    """
    if not isinstance(node, ast.Subscript) or not _KEYS.search(last_name(node.value)):
        return False
    place = node.slice
    if isinstance(place, ast.BinOp):
        return isinstance(place.op, ast.Mod) and bool(_COUNTS.search(last_name(place.left)))
    name, around = last_name(place), view.parents()
    owner = next((part for part in reversed(around) if isinstance(part, ast.ClassDef)), None)
    start, end = view.bytes_at(owner) if owner else (0, len(view.source))
    goes_up = re.compile(rb"\b%s = .*\+ 1\) %% len\(" % re.escape(name.encode()))
    return bool(_COUNTS.search(name) and goes_up.search(view.source, start, end))


def _asks_for_next(node: ast.expr) -> bool:
    """`pool.next_key()`."""
    if (
        not isinstance(node, ast.Call)
        or not _ROTATES.match(last_name(node.func))
        or not isinstance(node.func, ast.Attribute)
    ):
        return False
    return any(_KEYS.search(last_name(part)) for part in walk(node))


HAZARD = Hazard(
    "CKR08",
    "isolation-boundary",
    "A",
    "error",
    source=(Pattern((ast.Call,), _rotating, ("api_key",), is_near=True, names=("api_key",)),),
    requests=(RequestRule("step", _crossed),),
)
