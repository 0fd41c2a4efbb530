"""The agents a project names, imported; the only place where this command runs the project's code.

Takes `module:attribute`, gives the head of the prompts that agent would send.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from contextkit.cli.lock.settings import Agent
from contextkit.context import Context
from contextkit.errors import ContextKitError, UsageError
from contextkit.prompt.lock import LockedHead, head_of

_PARTS = 3
"""Provider, system, tools."""


def load_head(agent: Agent, root: Path) -> LockedHead:
    """The head of `agent`, whose modules are looked up in `root` and `root/src` first.

    Raises `UsageError` where it cannot be imported, or is no agent.
    """
    with _importing(root):
        context = _context(_made(agent), agent)
        request = context.request()
    return head_of(request.layout, request.prompt, request.wire, request.provider, request.model.name)


def _made(agent: Agent) -> Any:
    module, attribute = agent.at.split(":")
    try:
        value: Any = import_module(module)
        for name in attribute.split("."):
            value = getattr(value, name)
        return value() if callable(value) else value
    except ContextKitError as error:
        raise UsageError(f"agent {agent.name!r} at {agent.at}: {error}") from error
    except (Exception, SystemExit) as error:  # the project's own code, whose faults are the caller's to mend
        what = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"agent {agent.name!r} at {agent.at} cannot be made ({what}): correct pyproject.toml or that code"
        ) from error


def _context(made: Any, agent: Agent) -> Context:
    if isinstance(made, Context):
        return made
    if not isinstance(made, tuple) or len(made) != _PARTS:
        kind = type(made).__name__
        raise UsageError(
            f"agent {agent.name!r} at {agent.at} is {kind}: give a Context, (provider, system, tools), or a function that makes one"
        )
    provider, system, tools = made
    return Context(provider, system=system, tools=tools)


@contextmanager
def _importing(root: Path) -> Iterator[None]:
    """The project's folders before all others, as `python -m` would have them."""
    before = list(sys.path)
    sys.path[:0] = [str(folder) for folder in (root, root / "src") if folder.is_dir()]
    try:
        yield
    finally:
        sys.path[:] = before
