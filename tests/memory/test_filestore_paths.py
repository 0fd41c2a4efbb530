"""A million hostile paths, and links that change while they are walked: not one byte read or written outside the root."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from urllib.parse import quote, unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.errors import MemoryRefused, PathRefused, StorageError, ToolRefusal
from contextkit.memory.files.local import HAS_HANDLES
from contextkit.memory.files.names import key_of, names_of, why_not
from contextkit.memory.filestore import FileMemory
from contextkit.memory.memory_tool import answer

CANARY = "canary-8f1c-outside-the-root"
Seen = dict[str, tuple[object, ...]]


class Outside:
    """Folders around the root whose every byte, name and time is known."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.root = place / "deep" / "er" / "store"
        self.secrets = [
            place / "secret",
            place / "deep" / "secret",
            place / "deep" / "er" / "secret",
            place / "other" / "x" / "secret",
        ]
        for path in self.secrets:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(CANARY)
            os.utime(path, (1, 2))  # read before it was written, so that the system must note the next read
        self.root.mkdir(parents=True)
        self.before = self.seen()

    def seen(self) -> Seen:
        """Everything outside the root, as it is: sizes, times (of the last read too), numbers, and the contents last of
        all."""
        paths = [path for path in sorted(self.place.rglob("*")) if self.root != path and self.root not in path.parents]
        stats = {str(path): os.lstat(path) for path in paths if path != self.root}
        rows: Seen = {
            name: (
                one.st_mode,
                one.st_ino,
                one.st_size,
                one.st_mtime_ns,
                one.st_atime_ns if not path_is_folder(one) else 0,
            )
            for name, one in stats.items()
        }
        return rows

    def check(self) -> None:
        assert self.seen() == self.before
        assert all(path.read_text() == CANARY for path in self.secrets)
        for path in self.secrets:
            os.utime(path, (1, 2))


def path_is_folder(status: os.stat_result) -> bool:
    return (status.st_mode & 0o170000) == 0o040000


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    return Outside(tmp_path / "place")


def test_the_canary_sings(outside: Outside) -> None:
    """The watch itself: a read, a write, a new name outside are each seen."""
    outside.check()
    for act in (
        outside.secrets[0].read_text,
        lambda: outside.secrets[1].write_text(CANARY),
        (outside.place / "new").touch,
    ):
        act()
        if outside.seen() == outside.before and act == outside.secrets[0].read_text:
            pytest.skip("this disk notes no reads (noatime): writes are still watched")
        with pytest.raises(AssertionError):
            outside.check()
        outside.before = outside.seen()


# The grammar of hostile paths
# ---------------------------------------------------------------------------------------------

UPS = [
    "..",
    ".",
    "...",
    "....",
    ". .",
    ".. ",
    " ..",
    "..\t",
    "..\0",
    "\0",
    "..;",
    "..%00",
    "%2e%2e",
    "%2E%2e",
    ".%2e",
    "%2e.",
    "%252e%252e",
    "%25252e%25252e",
    "%c0%ae%c0%ae",
    "%C0%AE.",
    "%e0%80%ae%e0%80%ae",
    "%f0%80%80%ae.",
    "%c0%2e%c0%2e",
    "%uff0e%uff0e",
    "%u002e%u002e",
    "%ef%bc%8e%ef%bc%8e",
    "%e2%80%a5",
    "\uff0e\uff0e",
    "\u2024\u2024",
    "\u2025",
    "\ufe52\ufe52",
    "\u3002\u3002",
    "\u00b7\u00b7",
    ".\u200b.",
    ".\u200d.",
    "\ufeff..",
    ".\u00ad.",
    "\u202e..",
    "\udcc0\udcae\udcc0\udcae",
    "\udc2e\udc2e",
    "\xc0\xae\xc0\xae",
    "..\u0301",
    "..\x7f",
    "..\x85",
    "&#46;&#46;",
    "\\x2e\\x2e",
    "0x2e0x2e",
    "~",
    "~root",
    "$HOME",
    "%HOME%",
    "${HOME}",
    "`..`",
    "*",
    "?",
    "..*",
    "-rf",
    "..:",
]
SEPARATORS = [
    "/",
    "/",
    "/",
    "/",
    "//",
    "\\",
    "\\\\",
    "/./",
    "%2f",
    "%2F",
    "%252f",
    "%5c",
    "%255c",
    "%c0%af",
    "%c1%9c",
    "%e0%80%af",
    "%ef%bc%8f",
    "\uff0f",
    "\u2044",
    "\u2215",
    "\u29f8",
    "\uff3c",
    "\u2216",
    "\ufe68",
    "\xc0\xaf",
    "\udcaf",
    "/\0/",
    ":",
    "/ /",
    "\u2028",
    "\n",
    ";/",
    "/\u200b/",
    "%u2215",
]
STARTS = [
    "",
    "",
    "",
    "/",
    "//",
    "///",
    "\\",
    "\\\\",
    "\\\\?\\",
    "\\\\.\\",
    "//?/",
    "//./",
    "\\\\host\\share\\",
    "//host/share/",
    "C:",
    "c:/",
    "C:\\",
    "Z:",
    "file:",
    "file://",
    "file:///",
    "/proc/self/root/",
    "/proc/self/cwd/",
    "/dev/fd/0/",
    "/dev/shm/",
    "~/",
    "./",
    ".\\",
    "%2f",
    "\uff0f",
    "memory://",
    "s3://b/",
    "\0",
    " ",
    "\ufeff",
    "/memories/",
    "../memories/",
    "link/",
    "links/up/",
    ".contextkit/",
    ".CONTEXTKIT/",
    ".contextKit\u200c/",
    "%2econtextkit/",
    "\u2024contextkit/",
    ".ﬁ/",
    "CONTEX~1/",
]
ENDS = [
    "secret",
    "secret",
    "etc/passwd",
    "other/x/secret",
    "deep/secret",
    "lock",
    "objects/ab/cd",
    "unfinished/x",
    "",
    "/",
    ".",
    "..",
    " ",
    "secret\0.md",
    "secret%00.md",
    "con",
    "NUL.txt",
    "aux.",
    "com¹",
    "LPT1 .md",
    "secret::$DATA",
    "secret:stream",
    "SECRE~1",
    "secret.",
    "secret ",
    "x" * 256,
    "é" * 128,
    "x" * 255,
    "ok.md",
    "Ok.md",
    "ﬀ.md",
    "e\u0301.md",
    "link",
    "file",
    "hard",
    "dangling",
    "loop",
    "pipe",
    "links/up/secret",
]


def assembled(random: Random) -> str:
    """A path of hostile parts."""
    choose = random.choice
    middle = "".join(choose(UPS) + choose(SEPARATORS) for _ in range(random.randrange(4)))
    path = choose(STARTS) + middle + choose(ENDS)
    return quote(path, safe="", errors="surrogatepass") if random.random() < 0.05 else path


def spoiled(random: Random) -> str:
    """A path with characters exchanged for ones that look, fold, normalise or decode alike."""
    path = list("../" * random.randrange(1, 5) + random.choice(["secret", "deep/secret", "other/x/secret"]))
    for _ in range(random.randrange(1, 4)):
        place = random.randrange(len(path))
        path[place] = random.choice(LOOKALIKES.get(path[place], [chr(random.randrange(0x110000))]))
    return "".join(path)


def scattered(random: Random) -> str:
    """Characters from all of Unicode, dots and slashes among them."""
    pool = [
        "/",
        ".",
        "\\",
        "%",
        *(chr(random.randrange(0x110000)) for _ in range(4)),
        *(chr(random.randrange(0x300)) for _ in range(4)),
    ]
    return "".join(random.choices(pool, k=random.randrange(1, 14)))


def _lookalikes() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {
        one: [f"%{ord(one):02x}", f"%25{ord(one):02X}", f"%u{ord(one):04x}"] for one in "./\\:secrtdpohx"
    }
    for code in itertools.chain(range(0x80, 0xD800), range(0xE000, 0x20000)):
        plain = unicodedata.normalize("NFKC", chr(code)).casefold()
        if plain[:1] in found and len(plain) <= 3:
            found[plain[0]].append(chr(code))
    return found


LOOKALIKES = _lookalikes()
GRAMMARS: list[Callable[[Random], str]] = [assembled, assembled, spoiled, scattered]
CORPUS = [
    STARTS[n % len(STARTS)] + UPS[n % len(UPS)] + SEPARATORS[n % len(SEPARATORS)] + end
    for n, end in enumerate(ENDS * len(STARTS))
]


def hostile(n: int, seed: int) -> Iterator[str]:
    random = Random(seed)
    yield from CORPUS[:n]
    for _ in range(n - len(CORPUS)):
        yield random.choice(GRAMMARS)(random)


# What is done with each
# ----------------------------------------------------------------------------------------------------

ACTS: dict[str, Callable[[FileMemory, str], object]] = {
    "read": lambda memory, path: memory.read_bytes(path),
    "write": lambda memory, path: memory.write(path, "w"),
    "append": lambda memory, path: memory.append(path, "a"),
    "list": lambda memory, path: memory.list(path),
    "exists": lambda memory, path: memory.exists(path),
    "rename to": lambda memory, path: memory.rename("seed.md", path),
    "rename from": lambda memory, path: memory.rename(path, "moved.md"),
    "delete": lambda memory, path: memory.delete(path),
    "version": lambda memory, path: memory.version(path),
    "tool view": lambda memory, path: answer(memory, {"command": "view", "path": f"/memories/{path}"}),
    "tool create": lambda memory, path: answer(
        memory, {"command": "create", "path": f"/memories/{path}", "file_text": "t"}
    ),
    "tool rename": lambda memory, path: answer(
        memory, {"command": "rename", "old_path": "/memories/seed.md", "new_path": path}
    ),
}


def attempt(memory: FileMemory, act: str, path: str) -> str:
    """What came of it; an answer that shows the canary is an escape, and so is any error that is not a refusal."""
    outcome, said = "done", ""
    try:
        said = str(ACTS[act](memory, path))
    except (MemoryRefused, ToolRefusal) as refused:
        outcome, said = type(refused).__name__, str(refused)
    assert CANARY not in said, (act, path)
    return outcome


def with_links(root: Path, secret: Path) -> None:
    """What somebody who may write to the root could have put there."""
    (root / "links").mkdir(exist_ok=True)
    targets = {
        "link": secret.parent,
        "links/up": root.parent,
        "dangling": secret.with_name("new"),
        "loop": root / "loop",
        "file": secret,
    }
    for name, target in targets.items():
        if not os.path.lexists(root / name):
            (root / name).symlink_to(target)
    if not os.path.lexists(root / "hard"):
        (root / "hard").hardlink_to(secret)
    if not os.path.lexists(root / "pipe"):
        os.mkfifo(root / "pipe")


def test_no_hostile_path_leads_outside(outside: Outside, request: pytest.FixtureRequest) -> None:
    if sys.platform == "win32":
        pytest.skip("links and pipes are made as on POSIX")
    n = 1_000_000 if request.config.getoption("--full") else 1_000
    with_links(outside.root, outside.secrets[2])
    memory = FileMemory(outside.root, quota_bytes=1 << 18)
    memory.write("seed.md", "seed")
    acts, outcomes = list(ACTS), Counter[str]()
    for number, path in enumerate(hostile(n, seed=7)):
        act = acts[number % len(acts)]
        outcomes[attempt(memory, act, path)] += 1
        if number % 50_000 == 49_999:
            outside.check()
        if outcomes["QuotaExceeded"] > 20 or (number % 500 == 0 and not memory.exists("seed.md")):
            renew(memory)
            with_links(outside.root, outside.secrets[2])
            outcomes["renewed"] += outcomes.pop("QuotaExceeded", 0) > 20
    outside.check()
    print(f"{n:,} hostile paths: {dict(outcomes.most_common())}; nothing outside was read or changed")
    assert outcomes["PathRefused"] + outcomes["ToolRefusal"] > n // 2


def renew(memory: FileMemory) -> None:
    """An empty store again, but for the links."""
    for row in memory.list(folders=True):
        if "/" not in row.path:
            memory.delete(row.path)
    memory.sweep([])
    memory.write("seed.md", "seed")


def test_whatever_is_accepted_is_one_plain_name_everywhere(request: pytest.FixtureRequest) -> None:
    """The rules themselves, on generated paths: nothing accepted changes its meaning under any decoding a system may
    do."""
    n_examples = 20_000 if request.config.getoption("--full") else 60
    parts = st.one_of(
        st.sampled_from([*UPS, *ENDS, *STARTS]),
        st.text(max_size=8),
        st.text(st.characters(max_codepoint=0x2FF), max_size=8),
    )

    @settings(max_examples=n_examples, deadline=None, database=None, derandomize=True)
    @given(st.lists(st.one_of(parts, st.sampled_from(SEPARATORS)), max_size=6).map("".join))
    def plain(path: str) -> None:
        text = ""
        try:
            names = names_of(path)
        except PathRefused as refused:
            names, text = (), str(refused)
        if text:
            assert text.isascii() and len(text) < 800
            return
        assert "/".join(names) == path
        decoded = [unquote(name) for name in names]
        folded = [
            unicodedata.normalize(form, name) for name in [*names, *decoded] for form in ("NFC", "NFD", "NFKC", "NFKD")
        ]
        for name in [*names, *folded, *map(str.casefold, folded)]:
            assert (
                name.strip(" .")
                and not {"/", "\\", "\0"} & set(name)
                and name not in (".", "..")
                and key_of(name) != ".contextkit"
            )

    plain()


PLAIN = [
    "plan.md",
    "2026-11-21 Notizen (1).md",
    "größe.md",
    "日本語.txt",
    "计划：一.md",
    "a.b.c",
    ".hidden",
    "100%.md",
    "console.log",
    "😀.md",
    "x&y=z,(1)[2]{3}#@!+~.md",
    "É",
    "«VOILÀ».md",
    "50%c3%a9",
]


ENCODED = [
    "../x",
    "%2e%2e/x",
    "%252e%252e/x",
    "%c0%ae%c0%ae/x",
    "．．/x",
    "a\\..\\x",
    "%ef%bc%8e%ef%bc%8e/x",
    "%e2%80%a5/x",
    "%e2%80%a4%e2%80%a4/x",
    "a%ef%bc%8fb",
    "%EF%BC%BCx",
    "%ef%bc%852e%ef%bc%852e/x",
    "\xc0\xae\xc0\xae/x",
    "%c3%80%c2%ae%c3%80%c2%ae/x",
    "a\xc0\xafx",
    "\xef\xbc\xbcx",
    "%20/x",
    ".%63ontextkit/x",
    ".％63ontextkit/x",
    "%ef%bc%8econtextkit/x",
]
"""Ways out of the root, and into the store's own folder, in other encodings."""


@pytest.mark.parametrize("path", ENCODED, ids=ascii)
def test_a_way_out_is_refused_in_any_encoding(path: str) -> None:
    with pytest.raises(PathRefused, match=r"way out|another folder|own folder"):
        names_of(path)


@pytest.mark.parametrize("name", PLAIN)
def test_plain_names_pass(name: str) -> None:
    assert why_not(name) is None and names_of(f"{name}/{name}") == (name, name)


# Races
# ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not HAS_HANDLES, reason="no folder handles here: calls are found out, not made impossible")
def test_a_folder_that_turns_into_a_link_while_it_is_walked_leads_nowhere(
    outside: Outside, request: pytest.FixtureRequest
) -> None:
    n = 40_000 if request.config.getoption("--full") else 400
    memory, root, done = FileMemory(outside.root), outside.root, threading.Event()
    memory.write("flip/secret", "inside")
    memory.write("flip/x/secret", "inside")
    (root / "to-folder").symlink_to(outside.secrets[3].parents[1], target_is_directory=True)
    (root / "to-file").symlink_to(outside.secrets[3])
    outside.before = outside.seen()
    flips = Counter[str]()

    def flip(name: str, link: str) -> None:
        """What is there and a link, by turns."""
        (root / name).rename(root / f"{link}-aside")
        (root / link).rename(root / name)
        (root / name).rename(root / link)
        (root / f"{link}-aside").rename(root / name)

    def keep_flipping() -> None:
        while not done.is_set():
            for name, link in (("flip", "to-folder"), ("flip/x/secret", "to-file")):
                try:
                    flip(name, link)
                    flips["done"] += 1
                except OSError:  # the store put something there meanwhile
                    flips["missed"] += 1
                    mend(root, name, link, outside.secrets[3])

    flipper = threading.Thread(target=keep_flipping)
    flipper.start()
    try:
        outcomes = Counter(raced(memory, step) for step in range(n))
    finally:
        done.set()
        flipper.join()
    outside.check()
    print(f"{n:,} walks against {flips['done']:,} calls: {dict(outcomes.most_common())}")
    assert flips["done"] > n // 100 and outcomes["done"] and outcomes["PathRefused"]


def mend(root: Path, name: str, link: str, secret: Path) -> None:
    """Bring link and target back to where they were, whatever step was missed."""
    aside = root / f"{link}-aside"
    if (root / name).is_symlink():
        (root / name).unlink()
    if not os.path.lexists(root / link):
        (root / link).symlink_to(secret if link == "to-file" else secret.parents[1])
    if aside.exists():
        try:
            aside.rename(root / name)
        except OSError:  # a new one stands there: that will do
            aside.rename(root / f"old-{os.urandom(6).hex()}")


def raced(memory: FileMemory, step: int) -> str:
    paths = ["flip/secret", "flip/x/secret", "flip/new", "flip/x/new/deep"]
    path = paths[step % 4]
    acts: list[Callable[[], object]] = [
        lambda: memory.read(path),
        lambda: memory.write(path, "inside"),
        lambda: memory.read(path),
        lambda: memory.append(path, "!") if step % 50 == 0 else memory.exists(path),
        lambda: memory.list("flip"),
        lambda: memory.delete(path),
        lambda: memory.rename(path, f"flip/{step}") if step % 7 == 0 else memory.read_bytes(path),
    ]
    try:
        said = acts[step % 7]()
    except (MemoryRefused, StorageError) as refused:
        return type(refused).__name__
    assert CANARY not in str(said)
    return "done"
