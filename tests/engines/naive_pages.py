"""transformers' pages a second time: no hash and no counters, but a list of pages that are searched from end to end.

Every page carries all tokens before it and is compared by them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Prefix = tuple[object, ...]


@dataclass(eq=False)
class Page:
    content: Prefix | None = None
    users: int = 0


@dataclass(eq=False)
class Asked:
    salt: str | None
    tokens: list[int]
    n_prompt: int
    table: list[Page] = field(default_factory=list)
    computed: int = 0
    in_last_pass: list[Page] = field(default_factory=list)
    is_refused: bool = False
    is_full: bool = False


class NaivePages:
    def __init__(self, n_pages: int, page: int, margin: float, n_batch: int) -> None:
        self.n_pages, self.page, self.margin, self.n_batch = n_pages, page, margin, n_batch
        self.pages: list[Page] = []

    def prefix(self, asked: Asked, index: int) -> Prefix:
        return (asked.salt, *asked.tokens[: (index + 1) * self.page])

    def find(self, content: Prefix) -> Page | None:
        for page in self.pages:
            if page.content == content:
                return page
        return None

    def n_free(self) -> int:
        return self.n_pages - len(self.pages)

    def evict(self) -> None:
        self.pages = [page for page in self.pages if page.users]

    def begin(self, tokens: list[int], salt: str | None) -> tuple[int, Asked]:
        asked = Asked(salt, list(tokens), len(tokens))
        if self.n_free() / self.n_pages < self.margin:
            self.evict()
        index = 0
        while (index + 1) * self.page < len(tokens):
            page = self.find(self.prefix(asked, index))
            if page is None:
                break
            page.users += 1
            asked.table.append(page)
            index += 1
        asked.computed = index * self.page
        while asked.computed < len(tokens):
            self.after_pass(asked)
            if not self.compute(asked, min(self.n_batch, len(tokens) - asked.computed)):
                asked.is_refused = True
                self.drop(asked, is_answered=False)
                return 0, asked
        return index * self.page, asked

    def compute(self, asked: Asked, n: int) -> bool:
        asked.in_last_pass = []
        if self.n_free() / self.n_pages < self.margin:
            self.evict()
        needed = 0
        while (len(asked.table) + needed) * self.page < asked.computed + n:
            needed += 1
        if needed > self.n_free():
            self.evict()
        if needed > self.n_free():
            return False
        for _ in range(needed):
            page = Page(users=1)
            self.pages.append(page)
            asked.table.append(page)
        asked.computed += n
        return True

    def after_pass(self, asked: Asked) -> None:
        for index, page in enumerate(asked.table):
            if page.content is not None or (index + 1) * self.page > asked.computed:
                continue
            content = self.prefix(asked, index)
            other = self.find(content)
            if other is None:
                page.content = content
                asked.in_last_pass.append(page)
            else:
                other.users += 1
                asked.table[index] = other
                self.pages.remove(page)

    def publish(self, asked: Asked) -> None:
        if not asked.is_refused:
            self.after_pass(asked)

    def generate(self, asked: Asked, tokens: list[int]) -> None:
        self.publish(asked)
        for token in tokens:
            is_first = len(asked.tokens) == asked.n_prompt
            asked.tokens.append(token)
            if is_first or asked.is_refused or asked.is_full:
                continue
            asked.is_full = not self.compute(asked, 1)
            if not asked.is_full:
                self.after_pass(asked)

    def end(self, asked: Asked, output: int) -> None:
        if not asked.is_refused:
            self.drop(asked, is_answered=output > 0)

    def drop(self, asked: Asked, *, is_answered: bool) -> None:
        for page in asked.table:
            page.users -= 1
            if not page.users and (page.content is None or (is_answered and page in asked.in_last_pass)):
                self.pages.remove(page)
