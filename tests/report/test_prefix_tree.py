"""The prefix tree: the runs of a trie that was built naively, the judge's losses, and what a reader sees of usual faults."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from random import Random
from time import process_time

import pytest

from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.cache.usage import Usage
from contextkit.importers.collecting import seldom_collecting
from contextkit.ledger.calls import Bodies, ModelCall, Record, Remark
from contextkit.ledger.misses import AnalyzedCall, analyzed_calls
from contextkit.ledger.prompts import outline
from contextkit.report.contents import Gathering
from contextkit.report.html.icicle import section
from contextkit.report.json import tree_document
from contextkit.report.partings import lines_of
from contextkit.report.prefix_tree import PrefixTree, Run
from contextkit.report.tree_terminal import MOST_LINES, tree_text
from tests.scale import n_examples

SONNET, HAIKU = "claude-sonnet-4-5", "claude-haiku-4-5"
START = 1_775_696_400.0


def grown(records: Iterator[Record] | Sequence[Record]) -> tuple[PrefixTree, list[AnalyzedCall]]:
    tree, calls = PrefixTree(), list(analyzed_calls(records))
    for call in calls:
        tree(call)
    return tree, calls


def shown(records: Iterator[Record] | Sequence[Record], width: int = 80, encoding: str = "utf-8") -> list[str]:
    tree, calls = PrefixTree(), list(analyzed_calls(records))
    gathering = Gathering(also=[tree])
    gathering.add_all(calls)
    lines = tree_text(tree, gathering.contents(""), width, encoding).splitlines()
    return lines[lines.index("") + 1 :]


# Against a trie that was built naively
# ---------------------------------------------------------------------------------------------------------------------

Block = tuple[int, int, str, int]
"""Level, settings of the request at that level, text, tokens."""


def outlined(blocks: Sequence[Block], before: Prompt | None) -> tuple[Prompt, object]:
    """A prompt of blocks, and its row as the difference to the prompt before."""
    digests, ends, digest, tokens = list[bytes](), list[int](), b"", 0
    for level, _, text, size in blocks:
        digest = blake2b(digest + bytes([level]) + text.encode(), digest_size=16).digest()
        tokens += size
        digests.append(digest)
        ends.append(tokens)
    levels, n = [block[0] for block in blocks], len(blocks)
    settings = [max((block[1] for block in blocks if block[0] <= level), default=0) for level in range(3)]
    keys = (bytes([settings[0]] * 8), bytes([settings[1]] * 8), bytes([settings[2]] * 8))
    tools = levels.count(0)
    marks = (Breakpoint(n - 1, 300),)
    prompt = Prompt(keys, (tools, tools + levels.count(1)), digests, ends, list(range(n)), marks, n)
    return prompt, outline(before, prompt, [-1] * n, 0)


def random_prompts(random: Random, n_calls: int) -> Iterator[tuple[str, str, list[Block]]]:
    """(session, model, blocks): conversations that grow, go back, part, and share what comes first."""
    conversations: list[tuple[str, str, list[Block]]] = []
    for number in range(n_calls):
        if not conversations or random.random() < 0.2:
            head = [(0, 0, f"tool {random.randrange(2)}", 400)] * random.randrange(3) + [
                (1, 0, f"system {random.randrange(3)}", 900)
            ]
            conversations.append((f"s{number}", random.choice((SONNET, SONNET, HAIKU)), head))
        place = random.randrange(len(conversations))
        session, model, blocks = conversations[place]
        if random.random() < 0.3:
            blocks = blocks[: random.randint(1, len(blocks))]
        setting = int(random.random() < 0.1)
        blocks = [(level, max(old, setting * (level == 2)), text, size) for level, old, text, size in blocks]
        asked = random.choice((setting, max((block[1] for block in blocks), default=0)))
        more = [
            (2, asked, f"text {text}", 300 + 700 * text) for text in random.choices(range(4), k=random.randrange(4))
        ]
        blocks = [*blocks, *more]
        conversations[place] = (session, model, blocks)
        yield session, model, blocks


def recorded(prompts: Sequence[tuple[str, str, list[Block]]], random: Random) -> Iterator[ModelCall]:
    last: dict[str, Prompt] = {}
    for number, (session, model, blocks) in enumerate(prompts):
        prompt, row = outlined(blocks, last.get(session))
        last[session] = prompt
        read = random.choice((0, prompt.n_tokens // 2, max(0, prompt.n_tokens - 300)))
        usage = Usage(0, read, prompt.n_tokens - read, 0, 20)
        at = START + 7 * number
        yield ModelCall(
            f"c{number}", session, "main", at, at + 1, at + 2, "anthropic", model, row, usage, None, None  # type: ignore[arg-type]
        )  # fmt: skip


def naive_runs(prompts: Sequence[tuple[str, str, list[Block]]]) -> set[tuple[object, ...]]:
    """First key, last key, length, tokens, calls that reach it, and the lengths of the prompts that end on it."""
    paths = []
    for _, model, blocks in prompts:
        path, tops = [], [0, 0, 0]
        for level in range(3):
            tops[level] = max((block[1] for block in blocks if block[0] <= level), default=0)
        for i, (level, _, _, size) in enumerate(blocks):
            texts = tuple((one[0], one[2]) for one in blocks[: i + 1])
            path.append((model, tops[level], texts, size))
        paths.append(path)
    followers: dict[object, set[object]] = {}
    for path in paths:
        for before, key in zip([None, *path], path, strict=False):
            followers.setdefault(before or path[0][0], set()).add(key)
    starts = {key for before, keys in followers.items() for key in keys if isinstance(before, str) or len(keys) > 1}
    runs = set()
    for start in starts:
        run = [start]
        while len(followers.get(run[-1], ())) == 1:
            run += followers[run[-1]]
        reaching = [path for path in paths if start in path]
        ending = sorted(len(path) for path in reaching if path[-1] in run)
        tokens = sum(key[3] for key in run)  # type: ignore[index]
        runs.add((len(start[2]), len(run[-1][2]), tokens, len(reaching), tuple(ending)))  # type: ignore[index]
    return runs


def runs_of(tree: PrefixTree) -> Iterator[Run]:
    waiting = [run for top in tree.summed() for run in top.run.runs.values()]
    while waiting:
        run = waiting.pop()
        yield run
        waiting += run.runs.values()


@pytest.mark.parametrize("seed", range(n_examples(25, 400)))
def test_the_runs_are_those_of_a_naive_trie(seed: int) -> None:
    random = Random(seed)
    prompts = list(random_prompts(random, random.randint(1, 60)))
    tree, calls = grown(list(recorded(prompts, random)))
    assert tree.n_calls == len(prompts)
    lengths = [len(blocks) for *_, blocks in prompts]
    found = [
        (run.start + 1, run.end, run.tokens, run.sums.calls, tuple(lengths[number] for number in run.ends))
        for run in runs_of(tree)
        if run.sums
    ]
    assert set(found) == naive_runs(prompts)
    check_sums(tree, calls)


def check_sums(tree: PrefixTree, calls: Sequence[AnalyzedCall]) -> None:
    """What the lines say adds up to what the calls say, at every level, and to the misses of the report."""
    lines = lines_of(tree)
    lost = [call.miss for call in calls if call.sent and call.miss and call.miss.is_loss]
    assert sum(line.sums.calls for line in lines) == tree.n_calls
    assert sum(line.sums.lost for line in lines) == sum(miss.lost_tokens for miss in lost)
    assert sum(line.sums.lost_usd for line in lines) == pytest.approx(sum(miss.cost_usd or 0.0 for miss in lost))
    read = sum(call.usage.read or 0 for call in calls if call.usage and call.sent and not call.is_silent)
    assert sum(line.sums.read for line in lines) == read
    waiting = [(line, 0) for line in lines]
    while waiting:
        line, level = waiting.pop()
        below = [one for one in line.lines if one.kind != "cause"]
        assert not below or sum(one.sums.calls for one in below) == line.sums.calls
        if line.kind != "cause":
            lost_here = 0 if line.kind == "same" else line.lost.lost
            assert sum(one.sums.lost for one in line.lines) + lost_here == line.sums.lost
        assert line.sums.lost >= line.lost.lost and level <= 2 * tree.n_calls.bit_length()
        waiting += [(one, level + 1) for one in line.lines]


# What a reader sees
# ---------------------------------------------------------------------------------------------------------------------

TEXT = "You are careful and answer in one sentence. " * 400
TOOLS = [
    {"name": name, "description": f"{name} " * 300, "input_schema": {"type": "object"}} for name in ("read", "write")
]
TRACKER = {"name": "tracker__list", "description": "issues " * 300, "input_schema": {"type": "object"}}
MARK = {"cache_control": {"type": "ephemeral"}}


def call(
    number: int,
    system: str,
    said: Sequence[str],
    tools: Sequence[object],
    bill: Usage,
    session: str = "s",
    lane: str = "main",
) -> ModelCall:
    messages = [
        {
            "role": ("user", "assistant")[i % 2],
            "content": [{"type": "text", "text": text, **(MARK if i == len(said) - 1 else {})}],
        }
        for i, text in enumerate(said)
    ]
    body = {
        "model": SONNET,
        "max_tokens": 9,
        "tools": tools,
        "system": [{"type": "text", "text": system, **MARK}],
        "messages": messages,
    }
    at = START + 20 * number
    return ModelCall(
        f"c{number}", session, lane, at, at + 1, at + 2, "anthropic", SONNET, Bodies(json.dumps(body).encode()), bill
    )


def turns(n: int) -> list[str]:
    return [f"turn {i}" for i in range(2 * n + 1)]


def test_a_clock_in_the_system_prompt_is_one_line() -> None:
    calls = [call(i, f"{TEXT}Now 10:{31 + i}", turns(i), TOOLS, Usage(3, 0, 5_000, 0, 9)) for i in range(8)]
    lines = shown(calls)
    start, same, clock, both = lines[:4]
    assert start.startswith("2 tools · ") and " 8 calls  $" in start and start.endswith("lost")
    assert same.startswith("├─ same to the end") and "call 1  " in same
    assert clock.startswith("└─ system[0] byte 17,6") and "7 calls  $0.12 lost" in clock
    assert both.strip() == '"Now 10:3|1"}" → "2"}"'


def test_a_tool_that_comes_and_goes_is_a_parting_and_a_return() -> None:
    without = {3, 4, 7}
    calls = []
    for i in range(10):
        changed = (i in without) != (i - 1 in without)
        bill = Usage(3, 0, 5_600 + 20 * i, 0, 9) if changed else Usage(3, 5_600 + 20 * i, 20, 0, 9)
        calls.append(call(i, TEXT, turns(i), [*TOOLS, *([] if i in without else [TRACKER])], bill))
    lines = shown(calls)
    start, same, came, went = lines[:4]
    assert start.startswith("2 tools · ") and "10 calls" in start
    assert same.startswith("├─ same to the end") and "7 calls" in same and same.endswith("lost")
    assert came.startswith("│  └─ tools[2] tracker__list came") and "2 calls" in came
    assert went.startswith("└─ tools[2] tracker__list went") and "3 calls" in went and went.endswith("lost")


def test_sub_agents_and_batches_are_told_apart() -> None:
    """A sub-agent with a head of its own is a start of its own; questions that write and are never read say so."""
    main = [call(i, TEXT, turns(i), TOOLS, Usage(3, 5_000 * (i > 0), 5_000 if not i else 20, 0, 9)) for i in range(4)]
    agent = [
        Remark("agent", "s/reviewer", "reviewer"),
        *(call(4 + i, f"Review. {TEXT}", turns(i), [], Usage(3, 4_000 * (i > 0), 4_000 if not i else 20, 0, 9), lane="reviewer")
          for i in range(3)),
    ]  # fmt: skip
    batch = [
        call(
            10 + i,
            "Sort the item. " * 1_200,
            [f"{i} {'word ' * 300}"],
            [],
            Usage(3, 4_000 * (i > 0), 400 if i else 4_400, 0, 9),
            f"b{i}",
        )
        for i in range(6)
    ]
    lines = shown([*main, *agent, *batch])
    starts = [line for line in lines if line[:1].isalnum() and " call" in line and "RECORDING" not in line]
    assert len(starts) == 3
    assert any(line.startswith("2 tools + system") and "4 calls" in line for line in starts)
    assert any("reviewer" in line for line in lines) and any("3 calls" in line for line in starts)
    different = next(line for line in lines if "6 different messages[0]" in line)
    assert "6 calls" in different and different.endswith("unread") and "wrote " in different


def test_calls_without_prompts_are_counted_and_no_prompt_text_is_printed() -> None:
    bare = [
        ModelCall(f"n{i}", "t", "main", START + i, provider="anthropic", model=SONNET, usage=Usage(1, 2, 3, 0, 4))
        for i in range(5)
    ]
    lines = shown(bare)
    assert any("5 calls without recorded prompts are not in the tree" in line for line in lines)
    secret = call(
        0, f"{TEXT} sk-ant-api03-Zm9vYmFyYmF6cXV4Zm9vYmFy", ["a private question"], TOOLS, Usage(3, 0, 5_000, 0, 9)
    )
    for text in (
        "\n".join(shown([secret, *bare])),
        tree_document(grown([secret])[0]),
        "".join(section(grown([secret])[0])),
    ):
        assert "private" not in text and "Zm9v" not in text and "careful" not in text


def test_it_fits_its_columns_and_an_ascii_terminal() -> None:
    random = Random(5)
    prompts = list(random_prompts(random, 300))
    records = list(recorded(prompts, random))
    for width, encoding in ((80, "utf-8"), (60, "ascii"), (120, "utf-8")):
        lines = shown(records, width, encoding)
        assert max(map(len, lines)) <= width
        "\n".join(lines).encode(encoding)
        own = [line for line in lines if " calls  " in line or " call " in line or "more, " in line]
        assert 10 < len(own) <= 40


# Size and time
# ---------------------------------------------------------------------------------------------------------------------


def many_calls(n: int) -> Iterator[ModelCall]:
    """Conversations that are edited now and then, questions that share a head, and a clock in front of everything."""
    random, at, last = Random(1), START, dict[str, Prompt]()
    blocks: list[Block] = []
    for number in range(n):
        kind, turn = number % 3, number // 3
        if kind == 0:
            if turn % 60 == 0:
                blocks = [(0, 0, f"tool {i}", 700) for i in range(12)] + [(1, 0, "system", 2_000)]
            if random.random() < 0.1:
                blocks = [*blocks[:-1], (2, 0, f"edit {number}", 500)] if len(blocks) > 14 else blocks
            blocks = [*blocks, *((2, 0, f"text {number} {i}", 400) for i in range(3))]
            session, sent = f"agent {turn // 60}", blocks
        elif kind == 1:
            session, sent = f"question {turn}", [(1, 0, "sort", 6_000), (2, 0, f"item {number}", 700)]
        else:
            session, sent = "clock", [(1, 0, f"clock {number}", 6_000), (2, 0, f"ask {number}", 700)]
        prompt, row = outlined(sent, last.get(session))
        last[session] = prompt
        at += 1
        usage = Usage(3, 0, prompt.n_tokens - 3, 0, 9)
        yield ModelCall(f"c{number}", session, "main", at, at, at, "anthropic", SONNET, row, usage)  # type: ignore[arg-type]


def test_what_is_drawn_stays_small_however_many_calls_there_are() -> None:
    tree, calls = grown(many_calls(n_examples(3_000, 30_000)))
    check_sums(tree, calls)
    assert len("".join(section(tree))) < 300_000 and len(tree_document(tree)) < 10_000_000


@pytest.mark.timed
def test_a_tree_of_100_000_calls_is_drawn_within_seconds() -> None:
    tree, seconds, calls = PrefixTree(), 0.0, analyzed_calls(many_calls(100_000))
    with seldom_collecting():
        while some := list(islice(calls, 2_000)):
            start = process_time()
            for analyzed in some:
                tree(analyzed)
            seconds += process_time() - start
        start = process_time()
        text = tree_text(tree, Gathering().contents(""), 80)
        seconds += process_time() - start
    assert seconds < 5 and len(text.splitlines()) < MOST_LINES + 10
    assert len("".join(section(tree))) < 300_000
