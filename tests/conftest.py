"""What every test folder shares: the option for the long versions, and the folder of real conversations."""

from __future__ import annotations

import gc
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp
from types import TracebackType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from contextkit import prices
from contextkit.models import _TABLE, register, unregister
from tests.audit import write_audit
from tests.scale import n_examples, set_full

for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ.setdefault(
        threads, "1"
    )  # before NumPy is loaded: other tests run beside, and two threads for small products are slower
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(
    Path(__file__).parent
)  # no certificate: every client would load 150 of them, and tests call nobody
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False  # every worker, and every process that a test starts, would compile all code again

collect_ignore = ["audit/sitecustomize.py"]
_descriptor, _notes = mkstemp(prefix="write-audit-")
os.close(_descriptor)
os.environ[write_audit.NOTES] = _notes
_audit_folder = str(Path(write_audit.__file__).parent)
if _audit_folder not in (_path := os.environ.get("PYTHONPATH", "")).split(os.pathsep):
    os.environ["PYTHONPATH"] = os.pathsep.join([_audit_folder, *filter(None, [_path])])
if "write_audit" not in sys.modules:  # a worker has it from its start
    write_audit.install()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the long versions: 200 kills instead of 3, and the like")


def pytest_configure(config: pytest.Config) -> None:
    """Set the default profile of property tests, and the profile `laws` of those over whole conversations.

    Neither has a deadline: a test must not fail because the machine is busy.
    """
    set_full(bool(config.getoption("--full")))
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    settings.register_profile("laws", max_examples=n_examples(5, 400), deadline=None, suppress_health_check=slow)
    settings.register_profile("properties", max_examples=n_examples(15, 500), deadline=None, suppress_health_check=slow)
    settings.load_profile("properties")


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Fail a test in which contextkit, here or in a process that the test started, wrote to a file by another way than
    `private_files`.
    """
    if os.stat(_notes).st_size:  # noqa: PTH116 - for every test
        found = Path(_notes).read_text("utf-8")
        os.truncate(_notes, 0)
        pytest.fail(f"files written by another way than contextkit/private_files.py:\n{found}", pytrace=False)


def pytest_unconfigure() -> None:
    Path(_notes).unlink(missing_ok=True)


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: a test in a hundred waits for a process of its own."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip timed tests, which run with `--full`."""
    if not config.getoption("--full"):
        for item in items:
            if item.get_closest_marker("timed"):
                item.add_marker(pytest.mark.skip(reason="a timed test: with --full"))


def pytest_collection_finish() -> None:
    """What was collected stays to the end: the garbage collector need not walk it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)  # and what tests make is mostly gone when they end


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data that may lie beside the checkout."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("shared data is not beside this checkout")
    return folder


@pytest.fixture(autouse=True)
def _own_facts() -> Iterator[None]:
    """Forget the models and prices that a test registered."""
    models, facts = dict(_TABLE._registered), list(prices._ADDED)
    yield
    if models != _TABLE._registered:
        for name in list(_TABLE._registered):
            unregister(name)
        for model in models.values():
            register(model)
    if len(facts) != len(prices._ADDED):
        prices._ADDED[:] = facts
        for cached in (prices._layers, prices._rates):  # their key is the number of registered facts
            cached.cache_clear()


EXAMPLES_FOLDER = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture
def example(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[[str], str]:
    """(name) → what an example prints, run as it stands, in an empty folder, without keys.

    It warns of nothing, or the test fails.

    In this process: the packages it needs are loaded already, which takes a new one two seconds.
    """

    def shown(name: str) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(EXAMPLES_FOLDER)
        monkeypatch.setattr(sys, "argv", [f"{name}.py"])
        for key in [
            key for key in os.environ if key.startswith(("ANTHROPIC_", "OPENAI_", "CLAUDE", "GEMINI_", "AWS_"))
        ]:
            monkeypatch.delenv(key)
        code = None
        try:
            runpy.run_path(str(EXAMPLES_FOLDER / f"{name}.py"), run_name="__main__")
        except SystemExit as ended:
            code = ended.code
        said = capsys.readouterr()
        assert (code or 0, said.err) == (0, "")
        return said.out

    return shown


class _Process(subprocess.Popen[Any]):
    """A process that a failed `with` does not wait for."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, error, trace)


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[Any]]]:
    """Starts processes as `subprocess.Popen` does.

    Each ends with the test, however that ends, and so do the processes it started.
    """
    started: list[subprocess.Popen[Any]] = []

    def begin(command: list[Any], **options: Any) -> subprocess.Popen[Any]:
        process = _Process(list(map(str, command)), **{"start_new_session": True, **options})
        started.append(process)
        return process

    yield begin
    for process in started:
        with suppress(ProcessLookupError, PermissionError):  # the whole group has ended
            os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
