"""Every error contextkit raises, split by who must act.

    ContextKitError
    ├── UsageError               the calling code must change
    │   ├── NotSerialisable          a value has no single JSON form
    │   ├── UnknownModel             the price table has no such row, or a provider has no such model
    │   ├── HeadChanged              system or tools differ from what the log stored
    │   ├── InvalidTool              a tool, or a set of tools, cannot be described to a model
    │   ├── InvalidCall              a call is unknown, already answered, or still open
    │   │   └── ToolRefusal              a tool's own words to the model, on a call it did not carry out
    │   ├── InvalidContent           a user message or a result holds what no provider takes
    │   ├── ItemsLost                a compaction leaves items that the model cannot read any more
    │   ├── BudgetExceeded           a call could cost more than the budget has left
    │   ├── ColdCacheRefused         a call would pay again for a cache that is cold, and `on_cold` said no
    │   ├── PrefixBroken             a watched client was about to send a request that breaks its conversation's prefix
    │   └── MissingExtra             an optional dependency is not installed
    ├── StorageError             what is stored must be looked at
    │   ├── LogCorrupt               a line breaks the chain, or is not a line of ours
    │   │   └── NewerFormat              a newer contextkit wrote it, and this one cannot read it
    │   ├── LogLocked                another process writes this log
    │   ├── ConcurrentAppend         somebody appended first
    │   ├── UnreadableLog            somebody else's log is not in the format it looked like
    │   └── FileCorrupt              a stored content is not what its digest says
    ├── MemoryRefused            whoever named the file, often the model, must ask for another thing
    │   ├── PathRefused              a path leads out of the store, or is spelled as no system keeps it
    │   ├── PathOccupied             something else stands at that path
    │   ├── FileMissing              nothing is stored there
    │   ├── FileErased               the content was erased for good, on purpose
    │   ├── SourceChanged            what a reference names has changed where it came from
    │   ├── NotText                  the file is not UTF-8 text
    │   └── QuotaExceeded            the store is full, or the file is too large for it
    └── ProviderError            what the provider sent, or what was meant for it
        ├── UnreadableReply          the reply is not of this endpoint
        ├── UnusableSummary          the reply to a request for a summary is none
        └── UnreadableRequest        the request body is not of this endpoint

The text of each says what is wrong, where, and what to do now. It never holds keys or headers, and prompt text only in
`PrefixBroken`, which shows the few bytes around the difference it is about.
"""

from __future__ import annotations

from traceback import format_tb


class ContextKitError(Exception):
    """Root of every error this package raises on purpose.

    What to do now may be another thing for a program and for a shell user: `in_code` is shown behind the text,
    `in_shell` by the commands.
    """

    def __init__(self, *args: object, in_code: str = "", in_shell: str = "") -> None:
        super().__init__(*args)
        self.in_code = in_code
        """What a caller in Python does: a call or a parameter; empty where the text says it."""
        self.in_shell = in_shell
        """What a shell user does: a flag or a file; empty where the text says it."""

    def __str__(self) -> str:
        return _with_remedy(super().__str__(), self.in_code)

    def for_shell(self) -> str:
        """The text for whoever typed a command: with the flag or the file to give, without a Python call.

        >>> UsageError("no model 'm'", in_code="give model=…", in_shell="name one with --model").for_shell()
        "no model 'm': name one with --model"
        """
        return _with_remedy(super().__str__(), self.in_shell) if self.in_code or self.in_shell else str(self)


def _with_remedy(text: str, remedy: str) -> str:
    return f"{text}: {remedy}" if remedy else text


class UsageError(ContextKitError):
    """The calling code must change."""


class NotSerialisable(UsageError):
    """A value has no single JSON form; `path` says where (`$.a[0].b`)."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(path, what)
        self.path = path
        """Where the value stands, from `$`."""
        self.what = what
        """What is wrong with it."""

    def __str__(self) -> str:
        return f"{self.what} at {self.path}"


class UnknownModel(UsageError):
    """The price table has no row for this model, or a model of this name is not offered here."""


class HeadChanged(UsageError):
    """System or tools differ from the stored ones: everything after them would be re-billed silently."""


class InvalidTool(UsageError):
    """A tool, or a set of tools, cannot be described to a model."""


class InvalidCall(UsageError):
    """A call is unknown, already answered, or still open."""


class ToolRefusal(InvalidCall):
    """A tool's own words to the model, on a call it did not carry out."""


class InvalidContent(UsageError):
    """A user message or a result holds what no provider takes."""


class BudgetExceeded(UsageError):
    """A call could cost more than its budget has left, or it cannot be priced; nothing was sent."""

    def __init__(
        self,
        text: str,
        *,
        unit: str = "",
        limit: float = 0,
        spent: float = 0,
        reserved: float = 0,
        would_be: float = 0,
        in_code: str = "",
        in_shell: str = "",
    ) -> None:
        super().__init__(text, in_code=in_code, in_shell=in_shell)
        self.unit = unit
        """`usd` or `tokens`: the unit of all amounts."""
        self.limit = limit
        """The budget."""
        self.spent = spent
        """Charged so far."""
        self.reserved = reserved
        """The most that calls in flight may cost."""
        self.would_be = would_be
        """The sum of both and of the most that this call could cost."""


class ItemsLost(UsageError):
    """A compaction leaves items that the model cannot read any more; the text names them and says what to do."""


class ColdCacheRefused(UsageError):
    """A call would pay again for what the cache held, and `on_cold` returned False; nothing was sent."""

    def __init__(self, text: str, cold: object = None) -> None:
        super().__init__(text)
        self.cold = cold
        """The `contextkit.ledger.cold.ColdCache` that `on_cold` was given."""


class PrefixBroken(UsageError):
    """A watched client was about to send a request that does not begin as the one before it did; nothing was sent."""

    def __init__(self, text: str, finding: object = None) -> None:
        super().__init__(text)
        self.finding = finding
        """The `contextkit.lint.finding.Finding`: hazard, path, byte offset, both sides, the line that made the call."""


class MissingExtra(UsageError):
    """An optional dependency is not installed; the text names the install command."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(what, extra)
        self.what = what
        """What was asked for."""
        self.extra = extra
        """The extra that brings it."""

    def __str__(self) -> str:
        return f'{self.what} needs an extra that is not installed: pip install "contextkit-sdk[{self.extra}]"'


class StorageError(ContextKitError):
    """What is stored must be looked at."""


class LogCorrupt(StorageError):
    """A stored line breaks the chain, or is not a line of ours."""


class NewerFormat(LogCorrupt):
    """A newer contextkit wrote it, and this one cannot read it: nothing is wrong with the file, upgrade."""


class LogLocked(StorageError):
    """Another process is writing this log."""


class ConcurrentAppend(StorageError):
    """Another writer appended first; reload and decide again."""


class UnreadableLog(StorageError):
    """Somebody else's log is not in the format it looked like; the text names file and line."""


class FileCorrupt(StorageError):
    """A stored content is not what its digest says: somebody else wrote over it, or the disk lost it."""


class MemoryRefused(ContextKitError):
    """A file store did not do what it was asked; whoever named the file, often the model, must ask for another thing."""


class PathRefused(MemoryRefused):
    """A path leads out of the store, or is spelled in a way that some system would read as another file."""


class PathOccupied(MemoryRefused):
    """Something else exists at that path: a folder, a file, a link, or a name that differs by case only."""


class FileMissing(MemoryRefused):
    """Nothing is stored at that path, or under that digest."""


class FileErased(MemoryRefused):
    """The content was erased for good, on purpose; only its digest is left."""


class SourceChanged(MemoryRefused):
    """A reference names content that its source no longer gives."""


class NotText(MemoryRefused):
    """The content is not UTF-8 text; read it as bytes."""


class QuotaExceeded(MemoryRefused):
    """The store is full, or the file is too large for it; delete, forget, or raise the limit."""


class ProviderError(ContextKitError):
    """What the provider sent, or what was meant for it, cannot be understood."""


class UnreadableReply(ProviderError):
    """The reply is not of this endpoint."""


class UnusableSummary(ProviderError):
    """The reply to a request for a summary is none: cut, refused, empty, or calls of tools; the conversation is as it
    was.
    """


class UnreadableRequest(ProviderError):
    """The request body is not of this endpoint; `path` says where."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(path, what)
        self.path = path
        """Where in the body, in the provider's own notation (`messages.0.content.1`)."""
        self.what = what
        """What is wrong there."""

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


def trace_of(fault: BaseException) -> str:
    """Return where a fault came from, without its text, which may quote a prompt or a header.

    An error of ours says what it says.

    >>> trace_of(KeyError("what the user said"))
    'KeyError'
    """
    kind, frames = type(fault).__name__, "".join(format_tb(fault.__traceback__))
    what = f"{kind}: {fault}" if isinstance(fault, ContextKitError) else kind
    return f"{what}\n{frames}".rstrip()
