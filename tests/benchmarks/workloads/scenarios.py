"""The workloads. Each function builds a fresh one: `scale` 1 is the whole, less is a shorter session of the same shape."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

from tests.benchmarks.workloads.text import access_code, instructions, page, title
from tests.benchmarks.workloads.workload import (
    Crash,
    Fact,
    Script,
    ToolSpec,
    Turn,
    View,
    Workload,
    call,
    look_up,
    read_whole,
    spec,
    text,
)

PAGE_TOKENS = 12_000
READ_BACK_LAG = 3
"""How many pages later a page is needed again."""


def _n(full: int, scale: float, least: int) -> int:
    return max(least, round(full * scale))


def _fact(key: str) -> Fact:
    return Fact(key, title(key), access_code(key))


# Research
# -----------------------------------------------------------------------------------------------------------------------------


def research(name: str, read_back: float, scale: float = 1.0, page_tokens: int = PAGE_TOKENS) -> Workload:
    """60 pages of 12,000 tokens are fetched one by one; a share of them is needed whole again three pages later."""
    keys = [f"p{number:03d}" for number in range(1, _n(60, scale, 4) + 1)]
    pages = {key: page(key, page_tokens, code=access_code(key)) for key in keys}
    n_lines = {key: words.count("\n") + 1 for key, words in pages.items()}
    facts = tuple(_fact(key) for key in keys)

    def needed_again(index: int) -> bool:
        return int((index + 1) * read_back) > int(index * read_back)

    def script(view: View) -> Script:
        for index in range(len(keys) + READ_BACK_LAG):
            if index < len(keys):
                view = yield call("fetch", page=keys[index])
            earlier = index - READ_BACK_LAG
            if earlier >= 0 and needed_again(earlier):
                view = yield from read_whole(
                    view, keys[earlier], n_lines[keys[earlier]], call("fetch", page=keys[earlier])
                )
        yield text("The report.", 2_000)

    fetch = spec("fetch", "Fetch a page by its key.", lambda page: pages[page], page="string")
    share = f"{read_back:.0%} of the pages needed again"
    return Workload(
        name,
        f"Research over {len(keys)} pages of {page_tokens:,} tokens, {share}",
        instructions("research", 1_500),
        [fetch],
        [Turn((f"Read the pages {keys[0]} to {keys[-1]}, then write a report on them.",))],
        script,
        pages=pages,
        facts=facts,
    )


# Coding
# -----------------------------------------------------------------------------------------------------------------------------

# Quantiles (every 5 %) of characters, from 62 recorded Claude Code transcripts: `recorded.py`.
_RESULT_CHARACTERS = {
    "run": (0, 0, 18, 42, 58, 70, 128, 154, 225, 290, 425, 527, 675, 805, 945, 1259, 1597, 2320, 3303, 5855, 30031),
    "read": (
        46,
        570,
        837,
        990,
        1140,
        1269,
        1430,
        1651,
        1833,
        2093,
        2313,
        2599,
        3012,
        3677,
        4305,
        5096,
        6930,
        10256,
        15683,
        25655,
        83921,
    ),
    "edit": (58, 91, 98, 102, 106, 108, 113, 115, 118, 120, 121, 125, 127, 136, 143, 184, 281, 575, 893, 1467, 9241),
    "search": (
        10,
        16,
        16,
        16,
        45,
        76,
        117,
        161,
        213,
        286,
        372,
        549,
        695,
        1048,
        1403,
        1923,
        2200,
        3197,
        4166,
        7931,
        20030,
    ),
}
_ARGUMENT_CHARACTERS = {
    "run": (50, 68, 74, 81, 85, 90, 94, 98, 103, 108, 115, 123, 133, 148, 161, 179, 201, 240, 297, 425, 4932),
    "read": (42, 75, 83, 89, 94, 97, 102, 105, 107, 109, 112, 115, 118, 120, 123, 126, 127, 130, 133, 148, 161),
    "edit": (
        134,
        206,
        285,
        359,
        440,
        510,
        569,
        619,
        696,
        777,
        864,
        991,
        1119,
        1259,
        1435,
        1662,
        2004,
        2515,
        3486,
        5293,
        26805,
    ),
    "search": (51, 87, 107, 117, 125, 129, 134, 138, 141, 145, 147, 150, 153, 156, 159, 164, 170, 177, 182, 192, 288),
}
_CALLS = {"run": 1442, "read": 1134, "edit": 993, "search": 626}
_CALLS_A_TURN = (1, 1, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 8, 10, 11, 14, 19, 23, 29, 41, 97)
_USER_PAUSE_SECONDS = (0, 0, 0, 3, 10, 17, 25, 36, 48, 62, 77, 90, 111, 134, 175, 215, 279, 348, 650, 1410, 5400)
"""The longest recorded pause is two days; ninety minutes stand for everything that outlives every cache."""
EDITS_LOOK_BACK = 10


def _drawn(rng: random.Random, quantiles: tuple[int, ...]) -> int:
    at = rng.random() * (len(quantiles) - 1)
    low = int(at)
    return round(quantiles[low] + (at - low) * (quantiles[low + 1] - quantiles[low]))


def coding(name: str = "coding", scale: float = 1.0) -> Workload:
    """300 calls with the sizes, mix, turns and pauses of recorded sessions; an edit needs a file read before."""
    rng = random.Random("coding")
    n_calls = _n(300, scale, 20)
    steps: list[tuple[str, str, int]] = []
    pages: dict[str, str] = {}
    for number in range(1, n_calls + 1):
        tool = rng.choices(list(_CALLS), list(_CALLS.values()))[0]
        key = f"c{number:03d}"
        steps.append((tool, key, _drawn(rng, _ARGUMENT_CHARACTERS[tool])))
        pages[key] = page(key, max(20, _drawn(rng, _RESULT_CHARACTERS[tool]) // 4))
    counts: list[int] = []
    while sum(counts) < n_calls:
        counts.append(min(_drawn(rng, _CALLS_A_TURN), n_calls - sum(counts)))
    turns = [
        Turn((f"Now do part {number + 1} of the change.",), float(_drawn(rng, _USER_PAUSE_SECONDS)) if number else 0.0)
        for number in range(len(counts))
    ]

    def script(view: View) -> Script:
        waiting = iter(steps)
        read: list[str] = []
        for count in counts:
            for _ in range(count):
                tool, key, size = next(waiting)
                if tool == "edit" and read:
                    target = rng.choice(read[-EDITS_LOOK_BACK:])
                    view = yield from read_whole(
                        view, target, pages[target].count("\n") + 1, call("read", what=target, detail="again")
                    )
                if tool == "read":
                    read.append(key)
                view = yield call(tool, output_tokens=40 + size // 4, what=key, detail="x" * max(1, size - 30))
            view = yield text("That part is done.", 150)

    tools = [
        spec(
            tool,
            f"{tool.capitalize()} in the working folder.",
            lambda what, detail: pages[what],
            what="string",
            detail="string",
        )
        for tool in _CALLS
    ]
    return Workload(
        name,
        f"Coding session of {n_calls} calls in {len(turns)} turns, sizes and pauses as recorded",
        instructions("coding", 6_000),
        tools,
        turns,
        script,
        pages={key: words for key, words in pages.items() if len(words) > 1_000},
    )


# Tools in phases
# -----------------------------------------------------------------------------------------------------------------------------

_PHASES = ("search", "open", "extract", "fill", "check", "report")


def browser(name: str = "browser", scale: float = 1.0) -> Workload:
    """60 tools in six phases of ten; twenty calls a phase."""
    n_calls = _n(20, scale, 3)
    tools: list[ToolSpec] = []
    counter = iter(range(1, 1_000))

    def result(target: str) -> str:
        return page(f"b{next(counter):03d}", 700)

    for phase in _PHASES:
        for number in range(9):
            about = (
                f"Step {number} of the phase {phase}: acts on one element of the open page and returns its snapshot."
            )
            tools.append(spec(f"{phase}_{number}", about, result, target="string"))
        tools.append(spec(f"{phase}_done", f"Ends the phase {phase}.", lambda target: "ok", target="string"))

    def script(view: View) -> Script:
        rng = random.Random("browser")
        for phase in _PHASES:
            for _ in range(n_calls - 1):
                yield call(f"{phase}_{rng.randrange(9)}", target=f"element {rng.randrange(500)}")
            yield call(f"{phase}_done", target="phase")
        yield text("Filed.")

    return Workload(
        name,
        f"Browser agent: 60 tools in 6 phases, {6 * n_calls} calls",
        instructions("browser", 2_000),
        tools,
        [Turn(("File the claim on the portal.",))],
        script,
        phases={phase: f"{phase}_" for phase in _PHASES},
    )


# Pauses
# -----------------------------------------------------------------------------------------------------------------------------


def _short(rng: random.Random) -> float:
    return rng.uniform(10, 240)


def _minutes(rng: random.Random) -> float:
    return rng.uniform(60, 3_000)


def _mixed(rng: random.Random) -> float:
    return rng.uniform(10, 240) if rng.random() < 0.7 else rng.uniform(300, 5_400)


def _long(rng: random.Random) -> float:
    return rng.uniform(60, 7_200)


PAUSES: dict[str, tuple[str, Callable[[random.Random], float]]] = {
    "short": ("under 4 minutes", _short),
    "minutes": ("1 to 50 minutes", _minutes),
    "mixed": ("7 of 10 under 4 minutes, the others 5 to 90", _mixed),
    "long": ("1 minute to 2 hours", _long),
}


def support(name: str, pauses: str, scale: float = 1.0) -> Workload:
    """30 turns of a support agent: a question, one look-up, an answer; the customer takes his time."""
    rng = random.Random(f"support/{pauses}")
    n_turns = _n(30, scale, 5)
    words, draw = PAUSES[pauses]
    turns = [
        Turn((f"Question {number}: {page(f'q{number:03d}', 300)}",), draw(rng) if number else 0.0)
        for number in range(n_turns)
    ]
    counter = iter(range(1, 1_000))
    tool = spec("look_up", "Look up an order.", lambda order: page(f"o{next(counter):03d}", 600), order="string")

    def script(view: View) -> Script:
        for number in range(n_turns):
            yield call("look_up", order=f"A-{number}")
            yield text("This is the state of your order.")

    return Workload(
        name,
        f"Support agent, {n_turns} turns, pauses {words}",
        instructions("support", 20_000),
        [tool],
        turns,
        script,
    )


# Sub-agents
# -----------------------------------------------------------------------------------------------------------------------------


def parallel(name: str = "parallel", scale: float = 1.0) -> Workload:
    """16 sub-agents start together over one prefix of 50,000 tokens; each makes three calls."""
    n_agents = _n(16, scale, 4)
    tasks = tuple(f"Subtask {number:02d}: check chapter {number}." for number in range(1, n_agents + 1))
    tool = spec(
        "chapter",
        "Read part of a chapter.",
        lambda chapter, part: page(f"h{chapter:03d}", 700, seed=part),
        chapter="integer",
        part="integer",
    )

    def lane(view: View) -> str:
        found = re.findall(r"Subtask \d\d", "\n".join(view.texts))
        return found[-1] if found else ""

    def script(view: View) -> Script:
        number = int(lane(view)[-2:] or 0)
        for part in range(3):
            yield call("chapter", chapter=number, part=part)
        yield text("The chapter is in order.")

    return Workload(
        name,
        f"{n_agents} parallel sub-agents over a prefix of 50,000 tokens",
        instructions("review", round(50_000 * min(1.0, scale * 4))),
        [tool],
        [],
        script,
        subtasks=tasks,
        lane=lane,
        real_wait_seconds=0.3,
    )


# Longer than the window
# -----------------------------------------------------------------------------------------------------------------------------


def overflow(name: str = "overflow", scale: float = 1.0) -> Workload:
    """A session that fills its window more than three times; facts of early results are asked for at the end."""
    n_pages = _n(48, scale, 8)
    limit = round(n_pages * PAGE_TOKENS / 4)
    keys = [f"d{number:03d}" for number in range(1, n_pages + 1)]
    pages = {key: page(key, PAGE_TOKENS, code=access_code(key)) for key in keys}
    planted = [keys[index * n_pages // 12] for index in range(8)]
    facts = tuple(_fact(key) for key in planted)
    delivered = iter(keys)
    answered: dict[str, str] = {}

    def script(view: View) -> Script:
        for _ in keys:
            view = yield call("next_document")
        view = yield text("All documents are read.")
        for fact in facts:
            view = yield from look_up(view, fact, answered)
            view = yield text("The code is known." if fact.key in answered else "I cannot find it.", 60)

    tool = spec(
        "next_document", "Take the next document off the queue; each is delivered once.", lambda: pages[next(delivered)]
    )
    questions = [Turn((f"What is the access code of {fact.title}?",), 30.0) for fact in facts]
    workload = Workload(
        name,
        f"{n_pages} documents of {PAGE_TOKENS:,} tokens through a window of {limit:,}, {len(facts)} early facts asked for at the end",
        instructions("records", 2_000),
        [tool],
        [Turn(("Read every document of the queue.",)), *questions],
        script,
        pages=pages,
        facts=facts,
        compact_at_tokens=limit,
    )
    workload.answered = answered
    return workload


# Many blocks, late tools, a crash
# -----------------------------------------------------------------------------------------------------------------------------


def rag(name: str = "rag", scale: float = 1.0) -> Workload:
    """12 turns, each with 30 retrieved passages as text blocks of their own."""
    n_turns = _n(12, scale, 3)
    turns = []
    for number in range(n_turns):
        passages = tuple(page(f"r{number * 30 + at:03d}", 400) for at in range(29))
        turns.append(Turn((*passages, f"Question {number}: what follows from these passages?"), 40.0))

    def script(view: View) -> Script:
        for _ in range(n_turns):
            yield text("It follows that.")

    return Workload(
        name, f"Retrieval, {n_turns} turns of 30 text blocks", instructions("retrieval", 3_000), [], turns, script
    )


def late_tools(name: str = "late tools", scale: float = 1.0) -> Workload:
    """30 turns of two calls; an MCP server brings two tools at turn 9 and two at turn 20."""
    n_turns = _n(30, scale, 6)
    counter = iter(range(1, 1_000))

    def result(query: str) -> str:
        return page(f"m{next(counter):03d}", 600)

    def late(prefix: str) -> tuple[ToolSpec, ...]:
        about = "Ask the issue tracker that has just been connected; returns what it holds on the query."
        return tuple(spec(f"{prefix}_{number}", about, result, query="string") for number in range(2))

    arrivals = {n_turns * 9 // 30: late("tracker"), n_turns * 20 // 30: late("wiki")}
    turns = [
        Turn((f"Part {number}: go on.",), 30.0 if number else 0.0, arrivals.get(number, ()))
        for number in range(n_turns)
    ]
    tools = [
        spec(f"base_{number}", "Ask the database; returns its rows.", result, query="string") for number in range(6)
    ]

    def script(view: View) -> Script:
        names = [tool.name for tool in tools]
        for number in range(n_turns):
            names += [tool.name for tool in arrivals.get(number, ())]
            for at in range(2):
                yield call(names[-1 - at], query=f"part {number}")
            yield text("Done.", 100)

    return Workload(
        name,
        f"Tools that come late: {n_turns} turns, two at turn {min(arrivals)} and two at turn {max(arrivals)}",
        instructions("operations", 10_000),
        tools,
        turns,
        script,
    )


def crash(name: str = "crash", scale: float = 1.0) -> Workload:
    """A session of 20 turns of four calls dies in the middle of a turn and goes on two minutes later."""
    n_turns = _n(20, scale, 4)
    n_steps = 4
    turns = [Turn((f"Part {number}: four steps.",), 30.0 if number else 0.0) for number in range(n_turns)]
    dies_at = f"s{(n_turns // 2) * n_steps + 2:03d}"
    state = {"crashed": False}

    def result(key: str) -> str:
        if key == dies_at and not state["crashed"]:
            state["crashed"] = True
            raise Crash("the process was killed")
        return page(key, 1_500)

    def script(view: View) -> Script:
        for number in range(n_turns):
            keys = [f"s{number * n_steps + at:03d}" for at in range(n_steps)]
            while missing := [key for key in keys if not view.lines(key)]:
                view = yield call("step", key=missing[0])
            view = yield text("Part done.", 100)

    pages = {f"s{number:03d}": page(f"s{number:03d}", 1_500) for number in range(n_turns * n_steps)}
    return Workload(
        name,
        f"Crash in the middle of turn {n_turns // 2} of {n_turns}, resumed after two minutes",
        instructions("migration", 4_000),
        [spec("step", "Do a step.", result, key="string")],
        turns,
        script,
        pages=pages,
    )


# All of them
# -----------------------------------------------------------------------------------------------------------------------------

READ_BACK_RATES = {"0": 0.0, "¼": 0.25, "½": 0.5, "1": 1.0}


def workloads(scale: float = 1.0) -> Iterator[tuple[str, Callable[[], Workload]]]:
    """Name and builder of each workload."""
    for words, rate in READ_BACK_RATES.items():
        yield f"research {words}", lambda name=f"research {words}", rate=rate: research(name, rate, scale)
    yield "coding", lambda: coding(scale=scale)
    yield "browser", lambda: browser(scale=scale)
    for pauses in PAUSES:
        yield f"support {pauses}", lambda name=f"support {pauses}", pauses=pauses: support(name, pauses, scale)
    yield "parallel", lambda: parallel(scale=scale)
    yield "overflow", lambda: overflow(scale=scale)
    yield "rag", lambda: rag(scale=scale)
    yield "late tools", lambda: late_tools(scale=scale)
    yield "crash", lambda: crash(scale=scale)
