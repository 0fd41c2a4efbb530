"""A seeded stream of prompts as agents send them: what a running engine and its reference cache are both asked.

Conversations grow by turns that hold what the engine generated; prompts are repeated, cut near the ends of blocks,
edited, shortened in the middle, sent under another salt, or new. The same seed and the same replies give the same
prompts, on any engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

FIRST_TOKEN, LAST_TOKEN = 3, 499
"""Token ids of the stream: below any vocabulary's size, and past the few special ones in front."""


@dataclass(frozen=True, slots=True)
class StreamedPrompt:
    """One request of the stream."""

    kind: str
    """How it came about: `new`, `continued`, `repeated`, `cut`, `shortened`, `edited`, `resalted` or `unrelated`."""
    tokens: list[int]
    """Token ids."""
    n_output: int
    """Tokens to generate, 1 or more."""
    salt: str | None = None
    """The tenant it is sent for, None for none."""
    conversation: int | None = None
    """Index of the conversation its reply is added to, None for none."""


class PromptStream:
    """Prompts, each made from those before it and from the replies to them.

    >>> stream = PromptStream(seed=1)
    >>> first = stream.next()
    >>> stream.replied(first, [7, 8])
    >>> first.kind, PromptStream(seed=1).next() == first
    ('new', True)
    """

    def __init__(
        self,
        seed: int,
        *,
        block: int = 16,
        max_tokens: int = 700,
        max_output: int = 20,
        n_documents: int = 6,
        salts: Sequence[str] = (),
    ) -> None:
        """`block`: many cuts are near its multiples; `n_documents`: as many beginnings are shared by conversations;
        `salts`: tenants beside the unnamed one.
        """
        self._random = Random(seed)  # noqa: S311  # repeatable, not secret
        self._block, self._max_tokens, self._max_output = block, max_tokens, max_output
        self._salts = tuple(salts)
        self._documents = [self._tokens(self._random.randint(20, 220)) for _ in range(n_documents)]
        self._conversations: list[tuple[list[int], str | None]] = []
        self._recent: list[StreamedPrompt] = []

    def next(self) -> StreamedPrompt:
        """Make the next prompt; `replied` tells it what came back before the one after it."""
        random, n_output = self._random, self._output()
        kind = random.choices(
            ("new", "continued", "repeated", "cut", "shortened", "edited", "resalted", "unrelated"),
            (22, 36, 8, 12, 8, 6, 4 if self._salts else 0, 4),
        )[0]
        if not self._conversations:
            kind = "new"
        make: Callable[[int], StreamedPrompt] = getattr(self, f"_{kind}")
        prompt = make(n_output)
        self._recent = [*self._recent[-24:], prompt]
        return prompt

    def replied(self, prompt: StreamedPrompt, generated: Sequence[int]) -> None:
        """Tell what the engine generated for a prompt; its conversation goes on with that."""
        if prompt.conversation is not None:
            self._conversations[prompt.conversation] = ([*prompt.tokens, *generated], prompt.salt)

    def _tokens(self, n: int) -> list[int]:
        return [self._random.randint(FIRST_TOKEN, LAST_TOKEN) for _ in range(n)]

    def _output(self) -> int:
        random = self._random
        return random.choice((1, 1, 2, 3, random.randint(1, self._max_output), random.randint(1, self._max_output)))

    def _latest(self) -> int:
        """Index of a conversation, later ones more often."""
        return max(0, len(self._conversations) - 1 - int(self._random.expovariate(0.25)))

    def _like(self, other: StreamedPrompt, kind: str, tokens: list[int], n_output: int) -> StreamedPrompt:
        return StreamedPrompt(kind, tokens[: self._max_tokens], n_output, other.salt)

    def _new(self, n_output: int) -> StreamedPrompt:
        random = self._random
        salt = random.choice(self._salts) if self._salts and random.random() < 0.3 else None
        tokens = random.choice(self._documents) + self._tokens(random.randint(1, 90))
        self._conversations.append((tokens, salt))
        return StreamedPrompt("new", tokens[: self._max_tokens], n_output, salt, len(self._conversations) - 1)

    def _continued(self, n_output: int) -> StreamedPrompt:
        index = self._latest()
        tokens, salt = self._conversations[index]
        tokens = tokens + self._tokens(self._random.randint(1, 60))
        return StreamedPrompt("continued", tokens[: self._max_tokens], n_output, salt, index)

    def _repeated(self, n_output: int) -> StreamedPrompt:
        other = self._random.choice(self._recent)
        return self._like(other, "repeated", list(other.tokens), n_output)

    def _cut(self, n_output: int) -> StreamedPrompt:
        random, other = self._random, self._random.choice(self._recent)
        length = random.randint(1, len(other.tokens))
        if random.random() < 0.6:
            length = max(1, min(len(other.tokens), length // self._block * self._block + random.choice((-1, 0, 0, 1))))
        return self._like(other, "cut", other.tokens[:length], n_output)

    def _shortened(self, n_output: int) -> StreamedPrompt:
        random, index = self._random, self._latest()
        tokens, salt = self._conversations[index]
        at = random.randrange(len(tokens))
        tokens = tokens[:at] + tokens[at + random.randint(1, 40) :] + self._tokens(random.randint(1, 30))
        return StreamedPrompt("shortened", tokens[: self._max_tokens], n_output, salt, index)

    def _edited(self, n_output: int) -> StreamedPrompt:
        other = self._random.choice(self._recent)
        tokens = list(other.tokens)
        tokens[self._random.randrange(len(tokens))] = self._tokens(1)[0]
        return self._like(other, "edited", tokens, n_output)

    def _resalted(self, n_output: int) -> StreamedPrompt:
        other = self._random.choice(self._recent)
        return StreamedPrompt("resalted", list(other.tokens), n_output, self._random.choice((None, *self._salts)))

    def _unrelated(self, n_output: int) -> StreamedPrompt:
        return StreamedPrompt("unrelated", self._tokens(self._random.randint(1, 300))[: self._max_tokens], n_output)
