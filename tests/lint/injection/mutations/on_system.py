"""Hazards of the system text, as they show in requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

from tests.lint.injection.mutations.mutation import CHAT, CLAUDE, Mutation
from tests.lint.injection.tape import Tape, system, user_turns

_GUIDE = "\n\n# Style\nAnswer briefly. Say what you did. Ask where you are not sure.\n"
_DAY = 86_400


def _fill(tape: Tape, turn: int, rng: Random, before: str, values: Callable[[int], str]) -> int:
    """A line in the system text, in front, in the middle or at the end, whose value is another one for other calls."""
    way = rng.randrange(3)
    for i, call in enumerate(tape.calls):
        slot, line = system(call), f"{before}{values(i)}"
        cut = slot.text.find("\n", len(slot.text) // 2) + 1 if way == 1 else 0
        slot.text = f"{slot.text}\n\n{line}\n" if way == 2 else f"{slot.text[:cut]}{line}\n{slot.text[cut:]}"
    return turn


_STAMPS = (
    ("Current time: ", "%Y-%m-%d %H:%M:%S"),
    ("The current date and time is ", "%A, %B %d, %Y at %I:%M %p"),
    ("Now: ", "%Y-%m-%dT%H:%M:%SZ"),
    ("<current_time>", "%H:%M</current_time>"),
    ("The current time is ", "%d/%m/%Y %H:%M"),
)
_DATES = (
    ("Today's date: ", "%Y-%m-%d"),
    ("Today is ", "%A, %B %d, %Y"),
    ("Current date: ", "%d %B %Y"),
    ("Date: ", "%m/%d/%Y"),
)


def clock(tape: Tape, turn: int, rng: Random) -> int | None:
    """A time that was taken once is taken for each request; tau-bench's own system text holds one."""
    label, form = rng.choice(_STAMPS)
    start = datetime.fromtimestamp(tape.calls[0].call.at, UTC)
    offset = rng.randint(60, 7000)

    def stamp(i: int) -> str:
        if i < turn:
            return start.strftime(form)
        now = datetime.fromtimestamp(tape.calls[i].call.at, UTC)
        return (now + timedelta(seconds=offset + 60 * (i - turn))).strftime(form)

    return _fill(tape, turn, rng, label, stamp)


def midnight(tape: Tape, turn: int, rng: Random) -> int | None:
    """The day in the system text is taken for each request, and midnight comes between two."""
    label, form = rng.choice(_DATES)
    at = tape.calls[turn].call.at
    gap = at - tape.calls[turn - 1].call.at
    shift = _DAY - at % _DAY + 1 + rng.random() * max(0.0, gap - 2)
    tape.shift(0, shift)
    days = [datetime.fromtimestamp(taped.call.at, UTC).date() for taped in tape.calls]
    if days[turn] == days[turn - 1]:
        return None
    return _fill(tape, turn, rng, label, lambda i: days[i].strftime(form))


_IDS: tuple[tuple[str, Callable[[Random], str]], ...] = (
    ("Request ID: ", lambda rng: str(UUID(int=rng.getrandbits(128), version=4))),
    ("x-anthropic-billing-header: cc_version=2.1.37; cch=", lambda rng: f"{rng.getrandbits(20):05x};"),
    ("trace_id=", lambda rng: f"{rng.getrandbits(128):032x}"),
    ("Session: sess_", lambda rng: f"{rng.getrandbits(48):012x}"),
    ("run-", lambda rng: "".join(rng.choices("0123456789abcdefghijklmnopqrstuvwxyz", k=20)) + "7q2"),
)


def identifier(tape: Tape, turn: int, rng: Random) -> int | None:
    """An id that was one for the session is minted for each request."""
    label, make = rng.choice(_IDS)
    first = make(rng)
    made = [first if i < turn else make(rng) for i in range(len(tape.calls))]
    return _fill(tape, turn, rng, label, lambda i: made[i])


def surroundings(tape: Tape, turn: int, rng: Random) -> int | None:
    """The state of the repository, taken for each request."""
    files = ["src/app.py", "src/main.ts", "README.md", "tests/test_app.py", "package.json", "docs/guide.md"]
    branch, is_branch = ("main", rng.random() < 0.4)
    state = sorted(rng.sample(files, 2))

    def block(i: int) -> str:
        own = "feature/login" if is_branch and i >= turn else branch
        mine = (
            state
            if i < turn or is_branch
            else sorted({*state, *[file for file in files if file not in state][: 1 + i - turn]})
        )
        changed = "\n".join(f" M {file}" for file in mine)
        return f"<env>\nWorking directory: /home/dev/app\nIs directory a git repo: Yes\nGit branch: {own}\nStatus:\n{changed}\n</env>"

    return _fill(tape, turn, rng, "", block)


_FACTS = (
    "The user prefers window seats.",
    "The user lives in Lisbon.",
    "Tests run with vitest.",
    "The user's name is Ana.",
    "Commits are signed.",
    "The user pays with a gift card.",
    "The project uses tabs.",
    "Releases happen on Mondays.",
    "The user is vegetarian.",
)


def recalled(tape: Tape, turn: int, rng: Random) -> int | None:
    """What a memory finds for the last question stands in the system text."""
    spoken = [i for i in user_turns(tape) if i >= turn]
    if not spoken:
        return None
    heading = rng.choice(("# Relevant memories\n", "<memories>\n", "Relevant context from past conversations:\n"))
    turns = set(user_turns(tape))
    found, facts = [], rng.sample(_FACTS, 3)
    for i in range(len(tape.calls)):
        if i in turns and i >= turn:
            old = facts
            while facts == old:
                facts = rng.sample(_FACTS, 3)
        found.append("\n".join(f"- {fact}" for fact in facts))
    return _fill(tape, spoken[0], rng, heading, lambda i: found[i] + "\n")


def plan(tape: Tape, turn: int, rng: Random) -> int | None:
    """The list of tasks is rendered into the system text."""
    tasks = ["read the code", "find the fault", "write a test", "mend it", "run all tests", "tell the user"]
    done, box = rng.randint(0, 2), rng.choice((("[ ]", "[x]"), ("☐", "☑"), ("pending:", "completed:")))
    heading = rng.choice(("## Current plan\n", "# TODO\n", "<todo_list>\n", "Your task list:\n"))

    def listed(i: int) -> str:
        n = done + (0 if i < turn else 1 + (i - turn) // 3)
        return "\n".join(f"- {box[place < n]} {task}" for place, task in enumerate(tasks)) + "\n"

    return _fill(tape, turn, rng, heading, listed)


def instruction_file(tape: Tape, turn: int, rng: Random) -> int | None:
    """A file of instructions is read again on resume, and somebody had edited it."""
    name = rng.choice(("AGENTS.md", "CLAUDE.md", ".cursorrules"))
    lines = [
        "Use the scripts of the repository.",
        "Never push to main.",
        "Write tests first.",
        "Keep functions short.",
        "Prefer tabs.",
    ]
    edited = rng.choice(([*lines[:2], "Ask before you add a dependency.", *lines[2:]], [*lines[:3], *lines[4:]]))
    heading = rng.choice((f"# {name}\n", f"Contents of /home/dev/app/{name} (project instructions):\n\n"))
    tape.shift(turn, rng.uniform(400, 20_000))
    return _fill(tape, turn, rng, heading, lambda i: "\n".join(edited if i >= turn else lines) + "\n")


def volatile_end(tape: Tape, turn: int, rng: Random) -> int | None:
    """A few words for the turn stand behind the stable text, in the block that is marked."""
    words = [
        "The user seems to be in a hurry.",
        "Be patient with the user.",
        "The user knows the subject well.",
        "Offer a summary at the end.",
        "Mention the open question first.",
        "Do not repeat what was said.",
    ]
    marker = {"type": "ephemeral"}
    last = rng.choice(words)
    for i, call in enumerate(tape.calls):
        if i >= turn:
            last = rng.choice([word for word in words if word != last])
        block = call.body["system"][0]
        block["text"] += f"{_GUIDE}\nFor this turn: {last}"
        block["cache_control"] = marker
    return turn


def rebuilt(tape: Tape, turn: int, rng: Random) -> int | None:
    """After a restart the prompt is built anew by another version of the program."""
    tape.shift(turn, rng.uniform(10, 4000))
    head = "# Tone\nBe friendly and exact.\n\n# Limits\nNever promise what you cannot check.\n\n# Work\nGo step by step.\n\n"
    other = "# Work\nGo step by step, tell what is left.\n\n# Tone\nBe exact. Be kind.\n\n# Safety\nRefuse what would harm.\n\n"
    tail = "\n# Format\nUse plain text.\n"
    new = "\n# Format\nUse Markdown where it helps.\n\n# Language\nAnswer in the language you are asked in.\n"
    is_switch = rng.random() < 0.3
    for i, taped in enumerate(tape.calls):
        slot = system(taped)
        slot.text = other + slot.text + new if i >= turn else head + slot.text + tail
        if is_switch and i >= turn:
            taped.body["model"] = {CLAUDE: "claude-sonnet-4-6", CHAT: "gpt-4.1"}.get(taped.wire, "gpt-5-mini")
            taped.call = replace(taped.call, model=taped.body["model"])
    return turn


_REMINDERS = (
    "<system-reminder>The file src/app.ts was changed by the user since you read it.</system-reminder>",
    "<system-reminder>Your list of tasks is empty. Use it when the work has several steps.</system-reminder>",
    "Reminder: the user has left the chat for a while; sum up where you are.",
)


def hoisted(tape: Tape, turn: int, rng: Random) -> int | None:
    """An adapter joins system messages of mid-conversation to the system text at the top."""
    text = rng.choice(_REMINDERS)
    for call in tape.calls[turn:]:
        slot = system(call)
        slot.text = f"{slot.text}\n\n{text}"
    return turn


MUTATIONS = (
    Mutation("CKS01", "time of day in the system text", clock),
    Mutation("CKS02", "date in the system text over midnight", midnight),
    Mutation("CKS03", "id minted for each request", identifier),
    Mutation("CKS04", "state of the repository in the system text", surroundings),
    Mutation("CKS05", "memories of the last question in the system text", recalled),
    Mutation("CKS06", "list of tasks in the system text", plan),
    Mutation("CKS07", "file of instructions read again on resume", instruction_file),
    Mutation("CKS10", "words for the turn in the marked block", volatile_end, (CLAUDE,)),
    Mutation("CKS10", "system text rebuilt after a restart", rebuilt),
    Mutation("CKS10", "system messages hoisted to the top", hoisted),
)
