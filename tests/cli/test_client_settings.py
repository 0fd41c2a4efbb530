"""The status line in Claude Code's settings: put in and taken out, with every other byte as it was; or refused, with every
byte as it was.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from contextkit.cli import client_settings
from contextkit.cli.client_settings import line_command
from tests.cli.conftest import Ended, Run

OURS = {"type": "command", "command": line_command(), "refreshInterval": 10}
USERS = '{"type": "command", "command": "~/mine.sh", "padding": 0}'
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    folder = tmp_path / ".claude"
    folder.mkdir()
    return folder / "settings.json"


@pytest.fixture
def change(run: Run, settings: Path) -> Callable[[str], Ended]:
    """`--install` or `--uninstall` without a question."""
    return lambda action: run("statusline", f"--{action}", "--settings", settings, "--yes")


Change = Callable[[str], Ended]

FINE = {
    "missing": None,
    "empty": b"",
    "blanks": b" \n\n",
    "empty object": b"{}",
    "empty object with blanks": b"{ }",
    "empty object of two lines": b"{\n}\n",
    "two spaces": b'{\n  "model": "opus",\n  "env": {\n    "A": "1"\n  }\n}\n',
    "four spaces": b'{\n    "model": "opus"\n}',
    "tabs": b'{\n\t"model": "opus"\n}\n',
    "no indent": b'{\n"model": "opus"\n}\n',
    "odd indent": b'{\n   "model" :   "opus"\n , "b":1}\n',
    "CRLF": b'{\r\n  "model": "opus"\r\n}\r\n',
    "CRLF in an empty object": b"{\r\n}\r\n",
    "CRLF, blank lines": b'\r\n{\r\n\r\n  "model": "opus"\r\n\r\n}\r\n\r\n',
    "BOM": b'\xef\xbb\xbf{"model": "opus"}',
    "BOM, CRLF": b'\xef\xbb\xbf{\r\n\t"model": "opus"\r\n}',
    "BOM alone": b"\xef\xbb\xbf",
    "minified": b'{"model":"opus","env":{"A":"1"}}',
    "one line": b'{"model": "opus", "env": {"A": "1"}}',
    "no newline at the end": b'{\n  "model": "opus"\n}',
    "several newlines at the end": b'{\n  "model": "opus"\n}\n\n\n',
    "nested statusLine": b'{"a": {"statusLine": {"command": "x"}}, "b": ["statusLine"]}\n',
    "statusLine in a text": b'{\n  "a": "\\"statusLine\\": {}, // no comment"\n}\n',
    "duplicate keys": b'{"a": 1, "a": 2, "b": {}, "b": {"c": 1}}',
    "unicode escapes": b'{"\\u0061": "\\u00e9\\ud83d\\ude00\\/ \\ud800", "b": 1}',
    "unicode": '{"ключ": "значение 😀\u2028"}'.encode(),
    "numbers as written": b'{"a": 1.0, "b": 1e400, "c": -0, "d": 12345678901234567890}',
    "braces in texts": b'{"a": "}{", "b": "]["}',
    "users statusLine": f'{{\n  "a": 1,\n  "statusLine": {USERS},\n  "b": 2\n}}\n'.encode(),
    "users statusLine alone": f'{{"statusLine":{USERS}}}'.encode(),
    "users statusLine of null": b'{"statusLine": null, "b": 2}',
    "two statusLines": b'{"statusLine": {"command": "old"}, "a": 1, "statusLine": {"command": "new"}}',
    "key with escapes": b'{"status\\u004cine": {"command": "x"}, "a": 1}',
    "large": b'{\n  "a": "' + b"x" * 900_000 + b'"\n}\n',
}


@pytest.mark.parametrize("name", FINE)
def test_taken_out_again_every_byte_is_as_it_was(settings: Path, change: Change, name: str) -> None:
    before = FINE[name]
    if before is not None:
        settings.write_bytes(before)
        settings.chmod(0o640)
    installed = change("install")
    assert installed.code == 0 and installed.err == "", installed.err
    with_ours = settings.read_bytes()
    parsed = json.loads(with_ours.removeprefix(b"\xef\xbb\xbf"))
    assert parsed["statusLine"] == OURS
    former = json.loads((before or b"").removeprefix(b"\xef\xbb\xbf").strip() or b"{}")
    assert {**former, "statusLine": 0} == {**parsed, "statusLine": 0}
    assert (b"\r\n" in with_ours) == (with_ours.count(b"\n") == with_ours.count(b"\r\n") > 0)
    if before is not None and os.name != "nt":
        assert settings.stat().st_mode & 0o777 == 0o640
    again = change("install")
    assert again.code == 0 and "already" in again.out and settings.read_bytes() == with_ours
    assert change("uninstall").code == 0
    assert (settings.read_bytes() if settings.exists() else None) == before
    assert [file.name for file in settings.parent.iterdir()] == [] if before is None else ["settings.json"]


def test_only_the_entry_is_inserted_in_the_style_of_the_file(settings: Path, change: Change) -> None:
    command = json.dumps(line_command())
    for before, after in (
        (b'{"a":1}', f'{{"a":1,"statusLine":{{"type":"command","command":{command},"refreshInterval":10}}}}'),
        (
            b'{\r\n\t"a": 1\r\n}',
            "\r\n".join(
                (
                    '{\r\n\t"a": 1,\r\n\t"statusLine": {',
                    '\t\t"type": "command",',
                    f'\t\t"command": {command},',
                    '\t\t"refreshInterval": 10\r\n\t}\r\n}',
                )
            ),
        ),
        (
            b"",
            f'{{\n  "statusLine": {{\n    "type": "command",\n    "command": {command},\n    "refreshInterval": 10\n  }}\n}}\n',
        ),
    ):
        settings.write_bytes(before)
        change("install")
        assert settings.read_bytes() == after.encode()
        change("uninstall")


def reserialized(text: str) -> str:
    """As Claude Code writes it when it changes a setting."""
    whole = json.loads(text)
    return json.dumps({"statusLine": whole.pop("statusLine"), **whole, "modelSettings": {"a": {"b": "low"}}}, indent=2)


EDITS: dict[str, tuple[str, Callable[[str], str], str]] = {
    "an entry behind ours": (
        '{\n  "a": 1\n}\n',
        lambda text: text.replace("\n  }\n}", '\n  },\n  "b": 2\n}'),
        '{\n  "a": 1,\n  "b": 2\n}\n',
    ),
    "an entry before all": ('{"a": 1}', lambda text: text.replace("{", '{"z": 0, ', 1), '{"z": 0, "a": 1}'),
    "another value": ('{\n  "a": 1\n}\n', lambda text: text.replace('"a": 1', '"a": [1, 2]'), '{\n  "a": [1, 2]\n}\n'),
    "all others are gone": (
        '{"a": 1}',
        lambda text: "{" + text.partition('"a": 1, ')[2],
        "{}",
    ),
    "only a newline at the end": ('{"a": 1}', lambda text: text + "\n", '{"a": 1}\n'),
    "written anew by the client": (
        '{"a":1}',
        reserialized,
        '{\n  "a": 1,\n  "modelSettings": {\n    "a": {\n      "b": "low"\n    }\n  }\n}',
    ),
    "the users statusLine comes back": (
        f'{{"a": 1, "statusLine": {USERS}}}',
        lambda text: text.replace('"a": 1', '"a": 2'),
        f'{{"a": 2, "statusLine": {USERS}}}',
    ),
    "an entry in a file that was missing": (
        "",
        lambda text: text.replace("{", '{\n  "b": 2,', 1),
        '{\n  "b": 2\n}\n',
    ),
    "the entry is gone": ('{"a": 1}', lambda text: '{"a": 3}', '{"a": 3}'),
    "the users own is back": (
        f'{{"statusLine": {USERS}}}',
        lambda text: f'{{"statusLine":   {USERS}, "b": 1}}',
        f'{{"statusLine":   {USERS}, "b": 1}}',
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_of_a_file_that_was_edited_only_the_entry_is_taken_out(settings: Path, change: Change, name: str) -> None:
    before, edit, after = EDITS[name]
    if before:
        settings.write_bytes(before.encode())
    change("install")
    settings.write_bytes(edit(settings.read_bytes().decode()).encode())
    ended = change("uninstall")
    assert (ended.code, ended.err) == (0, "") and settings.read_bytes() == after.encode()
    assert [file.name for file in settings.parent.iterdir()] == ["settings.json"]


REFUSED = {
    "line comment": (b'{\n  // mine\n  "a": 1\n}', "is not JSON"),
    "block comment": (b'/* mine */ {"a": 1}', "neither comments"),
    "trailing comma": (b'{"a": 1,}', "comma"),
    "cut": (b'{"a": ', "is not JSON"),
    "prose": (b"model = opus\n", "is not JSON"),
    "a list": (b"[1, 2]", "no object"),
    "a text": (b'"statusLine"', "no object"),
    "two objects": (b"{}{}", "is not JSON"),
    "NUL bytes": (b'{"a": "\x00"}', "is not JSON"),
    "NaN": (b'{"a": NaN}', "is not JSON"),
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "Latin-1": (b'{"a": "\xe9"}', "not UTF-8"),
    "single quotes": (b"{'a': 1}", "is not JSON"),
    "too large": (b'{"a": "' + b"x" * (1 << 20) + b'"}', "too many"),
    "too deep": (b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "nested too deeply"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_changed_is_refused_and_stays(settings: Path, change: Change, name: str) -> None:
    case = REFUSED[name]
    content, words = case if isinstance(case, tuple) else (case, "not UTF-8")
    settings.write_bytes(content)
    for action in ("install", "uninstall"):
        refused(change(action), "" if action == "uninstall" else words)
        assert settings.read_bytes() == content and [*settings.parent.iterdir()] == [settings]


def refused(ended: Ended, *words: str) -> None:
    assert ended.code == 2 and ended.err.count("\n") == 1, ended.err
    assert all(word in ended.err for word in words), ended.err


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_links_are_not_followed(settings: Path, change: Change, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.json"
    settings.symlink_to(target)  # a dangling one
    refused(change("install"), "is a link", "put the file itself in its place")
    assert not target.exists() and settings.is_symlink()
    target.write_bytes(b"{}")
    refused(change("install"), "is a link")
    assert target.read_bytes() == b"{}"
    settings.unlink()
    settings.write_bytes(b"{}")
    (settings.parent / "settings.json.before-contextkit").symlink_to(target)
    refused(change("install"), "before-contextkit is a link")
    assert target.read_bytes() == b"{}" and settings.read_bytes() == b"{}"


def test_read_only_files_and_folders_are_left_alone(settings: Path, change: Change) -> None:
    settings.write_bytes(b"{}")
    settings.chmod(0o444)
    refused(change("install"), "settings.json is read-only: allow writing")
    settings.chmod(0o644)
    if not IS_ROOT and os.name != "nt":
        settings.parent.chmod(0o555)
        refused(change("install"), ".claude is read-only: allow writing")
        settings.parent.chmod(0o755)
    assert settings.read_bytes() == b"{}" and [*settings.parent.iterdir()] == [settings]


@pytest.mark.skipif(not IS_ROOT, reason="only root can give a file away")
def test_a_file_of_another_user_is_left_alone(settings: Path, change: Change) -> None:
    settings.write_bytes(b"{}")
    os.chown(settings, 12345, -1)
    refused(change("install"), "a file of user 12345")
    assert settings.read_bytes() == b"{}"


def test_a_folder_that_is_none_and_a_folder_in_place_of_the_file(run: Run, tmp_path: Path) -> None:
    refused(
        run("statusline", "--install", "--settings", tmp_path / "no" / "s.json", "--yes"), "is no folder", "--settings"
    )
    refused(run("statusline", "--install", "--settings", tmp_path, "--yes"), "is a folder")
    assert [*tmp_path.iterdir()] == []


def test_a_status_line_that_was_changed_is_left_to_the_user(settings: Path, change: Change) -> None:
    settings.write_bytes(b'{"a": 1}')
    change("install")
    mine = settings.read_bytes().replace(b'"refreshInterval": 10', b'"refreshInterval": 5')
    settings.write_bytes(mine)
    for action in ("install", "uninstall"):
        refused(change(action), "was changed since contextkit wrote it", "delete settings.json.contextkit")
        assert settings.read_bytes() == mine


def test_nothing_to_take_out(settings: Path, change: Change) -> None:
    settings.write_bytes(f'{{"statusLine": {USERS}}}'.encode())
    refused(change("uninstall"), "contextkit did not write its statusLine")
    change("install")
    for name in ("settings.json.before-contextkit", "settings.json.contextkit"):
        kept = settings.with_name(name).read_bytes()
        settings.with_name(name).unlink()
        refused(change("uninstall"), name)
        settings.with_name(name).write_bytes(kept)
    settings.with_name("settings.json.contextkit").write_bytes(b"{")
    refused(change("uninstall"), "settings.json.contextkit is damaged")


def test_another_interpreter_takes_the_place_of_ours(
    settings: Path, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    for edit in (b"", b"\n"):
        settings.write_bytes(b'{"a": 1}')
        with monkeypatch.context() as patched:
            patched.setattr(sys, "executable", "/usr/old python/bin/python3")
            change("install")
            assert "'/usr/old python/bin/python3' -P -m contextkit statusline" in settings.read_text("utf-8")
        settings.write_bytes(settings.read_bytes() + edit)
        assert "already" not in change("install").out
        assert json.loads(settings.read_bytes()) == {"a": 1, "statusLine": OURS}
        assert change("uninstall").code == 0 and settings.read_bytes() == b'{"a": 1}' + edit


def test_what_changes_is_shown_first_and_nobody_to_ask_means_no(settings: Path, run: Run) -> None:
    before = b'{\n  "env": {\n    "ANTHROPIC_AUTH_TOKEN": "sk-ant-api03-' + b"A" * 90 + b'"\n  }\n}\n'
    settings.write_bytes(before)
    ended = run("statusline", "--install", "--settings", settings)
    assert ended.code == 2 and "--yes" in ended.err and '+  "statusLine": {' in ended.out and "A" * 20 not in ended.out
    assert settings.read_bytes() == before and [*settings.parent.iterdir()] == [settings]


def test_a_file_that_is_written_meanwhile_is_left_as_it_is(
    settings: Path, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.write_bytes(b'{"a": 1}')
    monkeypatch.setattr(client_settings, "_confirm", lambda *given, is_sure: settings.write_bytes(b'{"a": 2}'))
    refused(change("install"), "was changed meanwhile")
    assert settings.read_bytes() == b'{"a": 2}' and not [*settings.parent.glob(".*.part")]


def test_the_settings_are_those_of_claude_code(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    assert run("statusline", "--install", "--yes").code == 0
    assert json.loads((tmp_path / "settings.json").read_bytes()) == {"statusLine": OURS}
    assert run("statusline", "--uninstall", "--yes").code == 0 and [*tmp_path.iterdir()] == []


@pytest.mark.skipif(os.name == "nt", reason="Claude Code runs it with Git's sh there")
def test_the_command_runs_whatever_the_path_and_the_folder(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise SystemExit('a file of the project was run')", "utf-8")
    ended = subprocess.run(
        ["/bin/sh", "-c", line_command()],
        input=b"{}",
        cwd=tmp_path,
        env={"PATH": "", "PYTHONPATH": str(Path(__file__).parents[2]), "HOME": str(tmp_path)},
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout == b"cache: unknown\n" and ended.stderr == b""
