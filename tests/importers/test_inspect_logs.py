"""Logs of Inspect: one run made here, as JSON and as a zip."""

from __future__ import annotations

import json
import zipfile
from functools import partial
from pathlib import Path

from contextkit.cache.usage import Usage
from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall
from tests.importers.reading import read_as

FIXTURES = Path(__file__).parent / "fixtures" / "inspect_logs"
LOG, ARCHIVE = FIXTURES / "log.json", FIXTURES / "log.eval"


read = partial(read_as, "Inspect log")


def test_a_log_in_both_forms_is_counted_once() -> None:
    faults = Faults()
    records = list(records_in([str(LOG), str(ARCHIVE)], faults))
    assert len([one for one in records if isinstance(one, ModelCall)]) == 4
    assert "4 of its calls were read before; counted once" in [fault.what for fault in faults.kept]


def test_a_log_without_samples_says_the_sums_of_the_run(tmp_path: Path) -> None:
    log = json.loads(LOG.read_text("utf-8"))
    del log["samples"]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(log), "utf-8")
    calls, _, _ = read(path)
    assert [(call.session, call.usage) for call in calls] == [("gh1", Usage(21, 9_000, 9_390, 0, 140))]


def test_damaged_members_are_reported_and_the_others_read(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    with zipfile.ZipFile(ARCHIVE) as whole, zipfile.ZipFile(path, "w") as hurt:
        for name in whole.namelist():
            data = whole.read(name)
            hurt.writestr(name, data[:90] if name.startswith("samples/1") else data)
    calls, _, faults = read(path)
    assert [call.usage for call in calls] == [Usage(400, 14_600, 0, 0, 50)]
    assert faults.kept[0].what == "a file of the .eval that cannot be read (JSONDecodeError); passed over"
    path.write_bytes(ARCHIVE.read_bytes()[:900])
    calls, _, faults = read(path)
    assert not calls and "a damaged .eval" in faults.kept[0].what


def test_an_archive_with_a_damaged_offset_is_a_fault_of_the_file(tmp_path: Path) -> None:
    data = bytearray(ARCHIVE.read_bytes())
    directory_offset = data.rfind(b"PK\5\6") + 16
    data[directory_offset : directory_offset + 4] = b"\xff\xff\xff\x7f"
    path = tmp_path / "a.eval"
    path.write_bytes(data)
    calls, _, faults = read(path)
    assert not calls and any(".eval" in fault.what for fault in faults.kept)


def test_a_member_that_says_it_unpacks_to_more_than_a_sample_holds_is_passed_over(tmp_path: Path) -> None:
    data = bytearray(ARCHIVE.read_bytes())
    at = data.rfind(b"PK\1\2")  # of the last file in the directory
    data[at + 24 : at + 28] = (2**31).to_bytes(4, "little")
    path = tmp_path / "a.eval"
    path.write_bytes(data)
    _, _, faults = read(path)
    assert "a file of the .eval of more than 1,024 MiB; passed over" in faults.counts
