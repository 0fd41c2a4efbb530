"""The file store, by path and by content, on the local disk, on a system without folder handles, and behind a URL."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from contextkit.errors import (
    FileCorrupt,
    FileErased,
    FileMissing,
    MissingExtra,
    NotText,
    PathOccupied,
    PathRefused,
    QuotaExceeded,
    StorageError,
    UsageError,
)
from contextkit.memory.files.handles import HAS_HANDLES
from contextkit.memory.files.local import LocalFolder
from contextkit.memory.filestore import ENTRY_BYTES, FileMemory, Listed, Stored

Make = Callable[..., FileMemory]


def held(root: Path, **limits: int) -> FileMemory:
    return FileMemory(root, **limits)


def watched(root: Path, **limits: int) -> FileMemory:
    """As on a system without folder handles."""
    memory = FileMemory(root, **limits)
    memory._folder = LocalFolder(root, by_handle=False)
    memory._objects._folder = memory._folder
    return memory


def remote(root: Path, **limits: int) -> FileMemory:
    pytest.importorskip("fsspec", reason="fsspec is not installed (extra `files`)")
    return FileMemory(f"memory://{uuid.uuid4().hex}/{root.name}", **limits)


LOCAL = [pytest.param(held, marks=pytest.mark.skipif(not HAS_HANDLES, reason="no folder handles here")), watched]


@pytest.fixture(params=[*LOCAL, remote])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


@pytest.fixture
def memory(make: Make, tmp_path: Path) -> FileMemory:
    return make(tmp_path / "store")


def test_what_is_written_is_read(memory: FileMemory) -> None:
    stored = memory.write("notes/ü.md", "a\r\nb\n")
    assert stored == Stored("notes/ü.md", hashlib.sha256(b"a\r\nb\n").hexdigest(), 5)
    assert memory.read("notes/ü.md") == "a\r\nb\n"
    assert memory.write("raw", b"\xff\x00").n_bytes == 2 and memory.read_bytes("raw") == b"\xff\x00"
    assert memory.write("empty", "").n_bytes == 0 and memory.read("empty") == ""
    with pytest.raises(NotText, match="byte 0"):
        memory.read("raw")
    with pytest.raises(NotText, match="surrogate"):
        memory.write("x", "\ud800")


def test_an_old_version_comes_back_after_its_path_was_overwritten_moved_and_deleted(memory: FileMemory) -> None:
    first, second = memory.write("a.md", "one"), memory.append("a.md", "two")
    memory.rename("a.md", "b/c.md")
    third = memory.write("b/c.md", "three")
    memory.delete("b")
    assert [memory.version(one.digest) for one in (first, second, third)] == [b"one", b"onetwo", b"three"]
    assert memory.list(folders=True) == [] and not memory.exists("b/c.md")


def test_a_listing_is_in_order_whoever_wrote_first(memory: FileMemory) -> None:
    for path in ["b.md", "a/z.md", "a.md", "a/b/c.md", "B-side/x.md"]:
        memory.write(path, path)
    assert [row.path for row in memory.list()] == ["B-side/x.md", "a/b/c.md", "a/z.md", "a.md", "b.md"]
    assert memory.list("a", folders=True) == [
        Listed("a/b", 8, True),
        Listed("a/b/c.md", 8, False),
        Listed("a/z.md", 6, False),
    ]
    assert memory.is_folder("a") and not memory.is_folder("a.md") and memory.exists("a") and not memory.exists("c")
    with pytest.raises(FileMissing, match="'nowhere'"):
        memory.list("nowhere")
    with pytest.raises(PathOccupied, match="no folder"):
        memory.list("a.md")


def test_a_content_is_kept_once_and_needs_no_path(memory: FileMemory) -> None:
    kept = memory.keep(b"page")
    assert (kept.path, kept.n_bytes) == (None, 4)
    assert memory.keep(b"page") == kept and memory.version(kept.digest) == b"page" and memory.list() == []
    with pytest.raises(FileMissing, match="no content"):
        memory.version("0" * 64)
    with pytest.raises(FileMissing, match="no digest"):
        memory.version("../../etc/passwd")


def test_what_is_forgotten_is_gone_and_says_so(memory: FileMemory, tmp_path: Path) -> None:
    secret = memory.write("key.txt", "s3cret")
    with pytest.raises(PathOccupied, match=r"'key\.txt' still holds"):
        memory.forget(secret.digest)
    memory.write("key.txt", "none")
    memory.forget(secret.digest)
    memory.forget(secret.digest)
    with pytest.raises(FileErased, match="erased for good"):
        memory.version(secret.digest)
    assert not any(b"s3cret" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    with pytest.raises(FileMissing):
        memory.forget("0" * 64)
    assert memory.version(memory.keep(b"s3cret").digest) == b"s3cret"


def test_a_sweep_leaves_what_a_path_holds_and_what_is_asked_for(memory: FileMemory) -> None:
    old, wanted = memory.write("a", "old one"), memory.keep(b"wanted")
    new = memory.write("a", "new")
    assert memory.sweep([wanted.digest]) == 7
    assert (memory.version(new.digest), memory.version(wanted.digest)) == (b"new", b"wanted")
    with pytest.raises(FileMissing):
        memory.version(old.digest)


def test_nothing_takes_the_place_of_something_else(memory: FileMemory) -> None:
    memory.write("folder/file", "x")
    for act in (
        lambda: memory.write("folder", "x"),
        lambda: memory.write("folder/file/below", "x"),
        lambda: memory.write("Folder/other", "x"),
        lambda: memory.write("folder/FILE", "x"),
        lambda: memory.read("folder"),
        lambda: memory.read("folder/File"),
        lambda: memory.rename("folder/file", "folder"),
        lambda: memory.rename("folder", "folder/file/x"),
        lambda: memory.rename("folder", "folder/x"),
    ):
        with pytest.raises(PathOccupied):
            act()
    for act in (lambda: memory.read("none"), lambda: memory.delete("none"), lambda: memory.rename("none", "other")):
        with pytest.raises(FileMissing, match="'none'"):
            act()
    for act in (
        lambda: memory.delete(""),
        lambda: memory.rename("", "x"),
        lambda: memory.write("", "x"),
        lambda: memory.read(""),
    ):
        with pytest.raises(PathRefused, match="root"):
            act()
    assert (
        [row.path for row in memory.list()] == ["folder/file"]
        and not memory.exists("Folder/file")
        and not memory.exists("folder/file/x")
    )


def test_the_quota_counts_what_is_at_paths_and_underneath(make: Make, tmp_path: Path) -> None:
    memory = make(tmp_path / "full", quota_bytes=3 * ENTRY_BYTES + 100)
    memory.write("a/b", "x" * 30)  # two names, 30 bytes at the path, 30 underneath
    with pytest.raises(QuotaExceeded, match=f"holds {2 * ENTRY_BYTES + 60} bytes"):
        memory.write("c", "y" * 21)
    memory.write("c", "x" * 30)  # the same content: underneath it is there already
    with pytest.raises(QuotaExceeded, match=f"needs {ENTRY_BYTES} more"):
        memory.write("d", "")
    memory.delete("a")
    memory.write("d", "")
    assert [row.path for row in memory.list()] == ["c", "d"]
    with pytest.raises(UsageError, match="quota_bytes=-1"):
        make(tmp_path / "wrong", quota_bytes=-1)


def test_the_quota_is_right_after_any_history(make: Make, tmp_path: Path) -> None:
    memory = make(tmp_path / "count")
    for step in range(12):
        memory.write(f"f{step % 3}/g{step % 4}", "x" * step)
    memory.rename("f0", "h/i")
    memory.append("f1/g0", "more")
    memory.delete("f2")
    memory.keep(b"kept")
    memory.sweep([])
    with memory.alone():
        assert memory._slate is not None
        counted = memory._n_bytes(memory._slate)
        memory._has_counted = False
        assert memory._n_bytes(memory._slate) == counted
    contents = [memory.read_bytes(row.path) for row in memory.list()]
    # at the paths, and once each underneath
    n_entries = len(memory.list(folders=True))
    assert counted == sum(map(len, contents)) + sum(map(len, set(contents))) + ENTRY_BYTES * n_entries


def test_threads_lose_nothing_to_each_other(memory: FileMemory) -> None:
    def add(name: str) -> None:
        for step in range(5):
            memory.append("shared.log", f"{name}{step}\n")
            memory.write(f"{name}/{step}", name)

    threads = [threading.Thread(target=add, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(memory.read("shared.log").split()) == sorted(f"{name}{step}" for name in "abcd" for step in range(5))
    assert len(memory.list()) == 21


# The local disk
# -----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=LOCAL)
def local(request: pytest.FixtureRequest, tmp_path: Path) -> FileMemory:
    made: FileMemory = request.param(tmp_path / "store")
    return made


def test_processes_lose_nothing_to_each_other(tmp_path: Path) -> None:
    program = (
        "import sys; from contextkit.memory.filestore import FileMemory; memory = FileMemory(sys.argv[1])\n"
        "for step in range(8): memory.append('shared.log', f'{sys.argv[2]}{step} '); memory.write(f'{sys.argv[2]}{step}.md', 'x')"
    )
    writers = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name]) for name in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    memory = FileMemory(tmp_path, quota_bytes=18 * ENTRY_BYTES)
    assert sorted(memory.read("shared.log").split()) == sorted(f"{name}{step}" for name in "ab" for step in range(8))
    with pytest.raises(QuotaExceeded):
        memory.write("one-more.md", "")


def test_a_forked_child_waits_like_any_other_process(tmp_path: Path) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("no fork on this system")
    memory = FileMemory(tmp_path)
    memory.write("log", "")
    program = (
        "import os, sys; from contextkit.memory.filestore import FileMemory; memory = FileMemory(sys.argv[1]); child = os.fork()\n"
        "for step in range(8): memory.append('log', f'{bool(child)}{step} ')\n"
        "os.waitpid(child, 0) if child else os._exit(0)"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, str(tmp_path)], check=True)
    assert sorted(memory.read("log").split()) == sorted(f"{side}{step}" for side in (True, False) for step in range(8))


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes are made as on POSIX")
def test_no_link_is_followed_read_or_written(local: FileMemory, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("canary")
    root = tmp_path / "store"
    local.write("inside.md", "x")
    (root / "folder").symlink_to(outside, target_is_directory=True)
    (root / "file").symlink_to(outside / "secret")
    (root / "dangling").symlink_to(outside / "new")
    (root / "second-name").hardlink_to(outside / "secret")
    os.mkfifo(root / "pipe")
    for path in ["folder/secret", "folder/new", "file", "dangling", "second-name", "pipe"]:
        for act in (local.read, lambda path=path: local.write(path, "x"), lambda path=path: local.append(path, "x")):
            with pytest.raises(PathRefused):
                act(path) if act == local.read else act()
        with pytest.raises((PathRefused, PathOccupied)):
            local.rename("inside.md", path)
    assert [row.path for row in local.list(folders=True)] == ["inside.md"]
    for path in ["folder", "file", "dangling", "second-name", "pipe"]:
        local.delete(path)
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("secret", "canary")]


@pytest.mark.skipif(sys.platform == "win32", reason="links are made as on POSIX")
@pytest.mark.parametrize("own", ["", "lock", "unfinished", "objects"])
def test_the_stores_own_folder_is_no_way_out_either(tmp_path: Path, own: str) -> None:
    """Somebody who may write to the root turns the store's own files into links."""
    outside, root = tmp_path / "outside", tmp_path / "store"
    outside.mkdir()
    (outside / "lock").write_text("canary")
    FileMemory(root).write("a.md", "x")
    place = root / ".contextkit" / own
    place.rename(root / "aside")
    if own == "lock":
        place.hardlink_to(outside / "lock")
    else:
        place.symlink_to(outside, target_is_directory=True)
    with pytest.raises(PathRefused):
        FileMemory(root).write("a.md", "new")
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("lock", "canary")]


@pytest.mark.skipif(sys.platform == "win32", reason="links are made as on POSIX")
def test_a_folder_with_links_in_it_goes_and_what_they_lead_to_stays(local: FileMemory, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("canary")
    local.write("folder/below/file", "x")
    (tmp_path / "store/folder/below/link").symlink_to(outside, target_is_directory=True)
    local.delete("folder")
    assert local.list(folders=True) == [] and (outside / "secret").read_text() == "canary"


def test_a_broken_version_is_found_out_and_healed(local: FileMemory, tmp_path: Path) -> None:
    kept = local.keep(b"whole")
    place = tmp_path / "store/.contextkit/objects" / kept.digest[:2] / kept.digest[2:]
    place.write_bytes(b"wh")
    with pytest.raises(FileCorrupt, match="not what its digest says"):
        local.version(kept.digest)
    assert local.version(local.keep(b"whole").digest) == b"whole"


def test_what_a_dead_writer_left_is_cleared(tmp_path: Path) -> None:
    FileMemory(tmp_path).write("a", "x")
    (tmp_path / ".contextkit/unfinished/123-dead").write_text("half")
    (tmp_path / ".contextkit/unfinished/folder/deep").mkdir(parents=True)
    FileMemory(tmp_path).write("b", "x")
    assert list((tmp_path / ".contextkit/unfinished").iterdir()) == []


def test_what_people_put_there_is_read_and_counted(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/by-hand.md").write_text("mine")
    (tmp_path / "no:name").write_text("no path of ours")
    memory = FileMemory(tmp_path, quota_bytes=2 * ENTRY_BYTES + 4)
    assert [row.path for row in memory.list()] == ["notes/by-hand.md"] and memory.read("notes/by-hand.md") == "mine"
    with pytest.raises(QuotaExceeded, match=f"holds {2 * ENTRY_BYTES + 4} bytes"):
        memory.write("third", "x")


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("Windows keeps permissions elsewhere")
    FileMemory(tmp_path / "new").write("a/b", "x")
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "new").rglob("*")} == {0}


def test_a_store_that_cannot_be_opened_says_where(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="choose a folder"):
        FileMemory(tmp_path / "file")
    for root in ("", 3, "a\0b"):
        with pytest.raises(UsageError):
            FileMemory(root)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="chain"):
        FileMemory("simplecache::s3://bucket/x")


def test_a_url_without_its_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtra, match=r"contextkit-sdk\[files\]"):
        FileMemory("s3://bucket/agent")


def test_a_local_url_is_a_local_folder(tmp_path: Path) -> None:
    FileMemory((tmp_path / "a b").as_uri()).write("x", "y")
    assert (tmp_path / "a b/x").read_text() == "y"


def test_a_server_with_real_folders_gets_files_beside_and_moved(tmp_path: Path) -> None:
    """`dir://`-less: fsspec's own local files stand for SFTP, SMB and their kin."""
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed (extra `files`)")
    from contextkit.memory.files import remote as module

    folder = module.RemoteFolder(f"memory://{uuid.uuid4().hex}")
    folder._files, folder._root, folder._is_whole = fsspec.filesystem("file"), str(tmp_path), False
    folder.put(("a", "b"), b"one")
    folder.put(("a", "b"), b"two")
    assert folder.read(("a", "b"), 10) == b"two" and [one.name for one in folder.scan(())] == ["a"]
    (tmp_path / ".contextkit/unfinished/litter").write_text("x")
    folder.clear()
    assert not (tmp_path / ".contextkit/unfinished").exists()
