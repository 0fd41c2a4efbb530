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
- source: a random or rotating choice flows into the credential of a client.
- requests: account or workspace differ within a session, where the recording holds them; keys themselves are never recorded.
- guard: not compared: the guard does not look at credentials.
- provider: silent, or `previous_message_not_found`, since the other account has never seen the message.

## References
- https://github.com/NousResearch/hermes-agent/issues/58747
- https://platform.claude.com/docs/en/build-with-claude/prompt-caching#cache-storage-and-sharing
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKR08", "isolation-boundary", "A", "error")
