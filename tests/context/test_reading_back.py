"""Whatever a compaction takes out of the window, the model can reach through what the prompt names."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from contextkit import Context, tool
from contextkit.cache.usage import Usage
from contextkit.canonical import parse
from contextkit.memory import FileMemory, Memory, Offload
from contextkit.memory.opening import NEWEST
from contextkit.memory.reference import references_of
from contextkit.memory.search.index import Index
from tests.context.test_remembering import PROVIDERS
from tests.laws.wires import answer

_numbers = count()
USAGE = Usage(10, 0, 0, 0, 5)
N_PAGES = 120
ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{16}(?![0-9a-f])")
GO_ON = re.compile(r"go on with start_line=(\d+)\]$")
PLANTED = {
    "the user's first turn": "The budget is 9,113 euros.",
    "a small result": "The door code is 5150.",
    "a reply": "I settled on the Kestrel.",
    "page 1": "The secret figure is 4711.",
    "page 60": "The sixtieth figure is 6060.",
    "page 120": "The last figure is 1200.",
}


@tool
def fetch(url: str) -> str:
    """Get a page."""
    number = int(url.rpartition("/")[2])
    lines = [f"# Page {number} of the report", ""]
    lines += [f"Row {row} of page {number} has an ordinary figure, {row * number}." for row in range(300)]
    lines[150] = PLANTED.get(f"page {number}", lines[150])
    return "\n".join(lines)


@tool
def look(place: str) -> str:
    """Look at a place."""
    return PLANTED["a small result"]


def memory_of(index: Index | None = None, files: FileMemory | None = None) -> Memory:
    files = files or FileMemory(f"memory://reading-back-{next(_numbers)}")
    return Memory(files, offload=Offload(1_000, 150), todo=None, recitation=None, has_file_tool=False, index=index)


def reply(context: Context, *parts: Any, stop: str | None = None) -> Any:
    request = context.request()
    body = answer(request.wire, f"r{next(_numbers)}", list(parts), USAGE, *([stop] if stop else []))
    return context.receive({**body, "model": request.model.name}, request)


def call(context: Context, name: str, **arguments: Any) -> Any:
    reply(context, ("call", f"c{next(_numbers)}", name, arguments))
    [made] = context.calls
    return context.result(made, made.run())


def session(context: Context, n_compactions: int = 3) -> None:
    """120 pages, compacted as often, by summaries that hold none of the facts."""
    context.user("Read the whole report.")
    context.user(PLANTED["the user's first turn"])
    call(context, "look", place="door")
    for number in range(1, N_PAGES + 1):
        call(context, "fetch", url=f"https://example.com/report/{number}")
        if number % (N_PAGES // n_compactions) == 0:
            reply(context, ("text", PLANTED["a reply"] if number < N_PAGES else "Read."))
            context.compact("Pages were read.")
            context.user("Go on.")


def reachable(context: Context) -> tuple[str, int]:
    """All text the model can read from the prompt on, by `read_reference` alone, and how many calls that takes."""
    [read] = [one for one in context.toolbox if one.name == "read_reference"]
    prompt = context.request().body.decode()
    text, pending, visited, n_calls = [prompt], ID.findall(prompt), set[str](), 0
    while pending:
        name = pending.pop()
        if name in visited:
            continue
        visited.add(name)
        line: int | None = 1
        while line is not None:
            part = str(read.run({"id": name, "start_line": line}))
            n_calls += 1
            text.append(part)
            more = GO_ON.search(part)
            line = int(more[1]) if more else None
            pending += [found for found in ID.findall(part) if found in context.memory.references._by_id]  # type: ignore[union-attr]
    return "\n".join(text), n_calls


def test_every_planted_fact_is_reachable_through_the_prompt_after_three_compactions() -> None:
    context = Context(PROVIDERS["anthropic"](), system="Careful.", tools=[fetch, look], memory=memory_of())
    session(context)
    prompt = context.request().body.decode()
    assert not [fact for fact in PLANTED.values() if fact in prompt] and len(prompt) < 12_000
    text, _ = reachable(context)
    assert [where for where, fact in PLANTED.items() if fact not in text] == []
    urls = [f"https://example.com/report/{number}" for number in range(1, N_PAGES + 1)]
    [index] = [one for one in references_of(context.log[-2]) if one.kind == "index"]
    listed = context.restore(index).decode()
    assert [url for url in urls if f'"{url}"' not in listed] == []
    assert '"Page 1 of the report", markdown' in listed and listed.count("what was said") == 3
    assert prompt.count("https://example.com/report/") == NEWEST
    shown = "\n".join(part["text"] for part in context.request()["messages"][0]["content"])
    first = next(line for line in shown.splitlines() if "index of all 123 references" in line)[:16]
    found = call(context, "read_reference", id=first, find='report/1"')  # two calls lead to a page of a known title
    page = parse(found.body)["content"][0]["text"].partition(": ")[2][:16]
    found = call(context, "read_reference", id=page, find="secret")
    assert parse(found.body)["content"][0]["text"] == (
        '151: The secret figure is 4711.\n[1 of 302 lines hold "secret"]'
    )


def test_what_is_kept_stays_out_of_the_listing_and_of_the_transcript_until_it_goes() -> None:
    context = Context(PROVIDERS["anthropic"](), system="Careful.", tools=[fetch, look], memory=memory_of())
    context.user("Go.")
    entries = [call(context, "fetch", url=f"https://example.com/report/{number}") for number in (1, 2)]
    reply(context, ("text", "Read."))
    context.user("More of it.")
    asked = entries[1].sequence - 2  # behind it the call begins
    epoch = context.compact("One was read.", keep_from=asked)
    opening = parse(epoch.body)["summary"][-1]["text"]
    assert "report/1" in opening and "report/2" not in opening
    conversation, index = references_of(epoch)
    assert conversation.title == f"what was said, entries 0 to {asked - 1}"
    assert "More of it." not in context.restore(conversation).decode() and b"report/2" in context.restore(index)
    epoch = context.compact("All was read.")
    assert "More of it." in context.restore(next(references_of(epoch))).decode()


def test_a_store_that_takes_no_more_still_lists_the_newest() -> None:
    files = FileMemory(f"memory://reading-back-{next(_numbers)}", quota_bytes=30_200)
    context = Context(PROVIDERS["anthropic"](), tools=[fetch, look], memory=memory_of(files=files))
    context.user("Go.")
    call(context, "fetch", url="https://example.com/report/1")
    files.write("large.txt", "x" * 8_000)
    with pytest.warns(UserWarning, match="lists the newest references only"):
        epoch = context.compact("Read.")
    assert b"report/1" in epoch.body and list(references_of(epoch)) == []


# Searching
# ----------------------------------------------------------------------------------------------------------------------

QUERIES = (
    "secret",
    "secret figure",
    "secret figure page 1",
    "page 1 secret figure",
    "what is the secret figure on page 1 of the report?",
    "an ordinary figure of a row of page 1 that is secret",
    "4711",
)


def searched(index: Index, n_pages: int = N_PAGES, *, compacts: bool = True) -> Context:
    """A session whose user, replies, summaries, branches and searches all speak of the secret figure."""
    context = Context(PROVIDERS["anthropic"](), system="Careful.", tools=[fetch, look], memory=memory_of(index))
    context.user("Read the whole report, page by page, and remember the secret figure.")
    for number in range(1, n_pages + 1):
        call(context, "fetch", url=f"https://example.com/report/{number}")
        if number % 40 == 0 and compacts:
            call(context, "memory_search", query="secret figure page 1")
            reply(context, ("text", f"Up to page {number} of the report I saw no secret figure."))
            side = context.summarising("Sum it up, the zebra too, with the secret figure of page 1.")
            reply(side, ("text", f"Pages {number - 39} to {number} were read; mind the secret figure. A giraffe."))
            context.compact(side)
            context.user("Go on.")
            for branch in context.fan_out(["Check page 1.", "Check page 2 against the walrus."]):
                reply(branch, ("text", "Checked."))
    return context


@pytest.fixture(scope="module")
def long_session() -> tuple[Context, Index]:
    """A long session whose log no test adds to, and what is found in it."""
    index = Index()
    return searched(index), index


@pytest.mark.parametrize("query", QUERIES)
def test_a_search_leads_to_the_page_that_holds_the_words(query: str, long_session: tuple[Context, Index]) -> None:
    context, _ = long_session
    tools = {one.name: one for one in context.toolbox}
    hits = [line.split() for line in str(tools["memory_search"].run({"query": query})).splitlines()]
    references = [(words[0], int(words[2])) for words in hits if words[3] == "(reference,"]
    name, line = next(row for row in references if PLANTED["page 1"].encode() in context.restore(row[0]))
    assert PLANTED["page 1"] in str(tools["read_reference"].run({"id": name, "start_line": line}))


def test_what_two_logs_share_is_found_once_and_a_summary_s_branch_not_at_all(
    long_session: tuple[Context, Index],
) -> None:
    context, index = long_session
    assert context.memory is not None and context.memory.index is not None
    search = context.memory.index.search
    hits = search("whole report page by page remember", 8)
    assert len({hit.snippet for hit in hits}) == len(hits) and hits[0].kind == "user"
    assert [hit.kind for hit in search("zebra")] == [], "the branch of a summary is not found"
    assert [hit.kind for hit in search("giraffe")] == ["epoch"] * 3
    assert [hit.kind for hit in search("walrus")] == ["user"] * 3  # a branch of its own each time
    n_documents, fork = len(index), context.fork()
    fork.user("A fork meets a hedgehog.")
    assert [hit.snippet for hit in search("hedgehog")] == ["A fork meets a hedgehog."]
    assert len(index) == n_documents + 1


def test_what_a_fork_shares_and_still_shows_is_not_recalled() -> None:
    context = Context(PROVIDERS["anthropic"](), tools=[fetch, look], memory=memory_of(Index()))
    context.user("A lynx was seen.")
    fork = context.fork()
    fork.user("And a hedgehog.")
    assert fork.recall("lynx hedgehog") is None
    fork.compact("Animals were seen.", keep_from=fork.log[-1])
    entry = fork.recall("lynx hedgehog")
    assert entry is not None and b"lynx" in entry.body and b"hedgehog was" not in entry.body


def test_a_fork_is_indexed_alone_and_after_its_parent_went_on(tmp_path: Path) -> None:
    index = Index(tmp_path / "index.db")
    context = searched(index, 30, compacts=False)
    assert context.memory is not None and context.memory.index is not None
    reply(context, ("text", "Read."))
    fork = context.fork(40)
    context.memory.index.search("anything")
    n_documents = len(index)
    context.user("The parent goes on to the narwhal.")
    fork.user("The fork goes to the ocelot.")
    assert len(context.memory.index.search("narwhal")) == len(context.memory.index.search("ocelot")) == 1
    assert len(index) == n_documents + 2
    again = Context(context.provider, log=fork.log, memory=memory_of(Index(tmp_path / "index.db")))
    assert again.memory is not None and again.memory.index is not None
    assert len(again.memory.index.search("ocelot")) == 1 and len(index) == n_documents + 2
