"""What a file holds that counts once: calls by their names in a run, remarks by what they are about in a file."""

from __future__ import annotations

from collections.abc import Iterator

from contextkit.importers.source import Source
from contextkit.ledger.calls import Remark, RemarkKind


class ReadOnce:
    """The names and remarks of one file."""

    def __init__(self, source: Source, program: str, what: str) -> None:
        """`program` keeps names apart from those of other programs; `what` begins the fault on names read before."""
        self.source, self.program, self.what = source, program, what
        self.n_known = 0
        """Names that were read before, here or in another file."""
        self.remarked: set[tuple[str, str]] = set()

    def is_new(self, name: str) -> bool:
        """Return whether a name was not read before; from now on it was."""
        is_new = self.source.is_new(self.program.encode(), name.encode("utf-8", "surrogatepass"))
        self.n_known += not is_new
        return is_new

    def remark(self, kind: RemarkKind, about: str, text: object) -> Iterator[Remark]:
        """Yield a remark on a session or a lane, once; none if there is no text."""
        if isinstance(text, str) and text and (kind, about) not in self.remarked:
            self.remarked.add((kind, about))
            yield Remark(kind, about, text)

    def finish(self) -> None:
        """Report what concerns the file as a whole."""
        if self.n_known:
            self.source.fault(0, f"{self.n_known:,} of its {self.what} read before; counted once")
