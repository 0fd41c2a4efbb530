"""What a mutation is: a hazard's code, and what the hazard does to the requests of a tape from a turn on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.lint.injection.tape import Tape

CLAUDE, CHAT, RESPONSES = "anthropic_messages", "openai_chat", "openai_responses"
EVERY = (CLAUDE, CHAT, RESPONSES)
OPENAI = (CHAT, RESPONSES)


@dataclass(frozen=True, slots=True)
class Mutation:
    """One hazard, as it shows in requests."""

    code: str
    """What the detector has to name."""
    what: str
    """What the client does."""
    change: Callable[[Tape, int, Random], int | None]
    """Does it to a tape, beginning with the call of that number; gives the number of the call that has to be named,
    None where the tape has nothing that the hazard could touch."""
    wires: tuple[str, ...] = EVERY
    """Where it can happen."""
    others: tuple[str, ...] = ()
    """Codes that say it as well: where a breakpoint one block earlier would save nearly all, that is the loss."""
