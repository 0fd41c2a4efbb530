"""Works on a file store until it is killed; says what it is about to do, and that it is done once it is safe."""

from __future__ import annotations

import hashlib
import json
import random
import sys

from contextkit.memory.filestore import FileMemory

SIZES = [0, 10, 1_000, 50_000, 400_000]


def content(step: str, size: int) -> bytes:
    """Bytes that no other step writes."""
    return (step.encode() * (size // len(step) + 1))[: max(size, 20)]


def say(word: str, *fields: str) -> None:
    print(json.dumps([word, *fields]), flush=True)


def work(root: str, seed: str) -> None:
    chance, memory, step = random.Random(seed), FileMemory(root), 0
    while True:
        step += 1
        data = content(f"{seed}-{step} ", chance.choice(SIZES))
        digest = hashlib.sha256(data).hexdigest()
        paths = [row.path for row in memory.list()]
        path = chance.choice([f"notes/{chance.randrange(6)}.md", f"{chance.randrange(4)}.txt"])
        act = chance.choice(["write", "write", "write", "append", "refer", "refer", "rename", "delete", "forget"])
        if act == "write":
            say("begin", act, path, digest)
            memory.write(path, data)
        elif act == "append":
            whole = (memory.read_bytes(path) if path in paths else b"") + data
            say("begin", "write", path, hashlib.sha256(whole).hexdigest())
            memory.append(path, data)
        elif act == "refer":
            path, text = f"refs/{step % 5}.json", json.dumps({"digest": digest})
            say("begin", "write", path, hashlib.sha256(text.encode()).hexdigest())
            memory.keep(data)
            memory.write(path, text)
        elif act == "forget":
            say("begin", "forget", memory.keep(data).digest)
            memory.forget(digest)
        elif paths:
            old, new = chance.choice(paths), f"moved/{step % 4}.md"
            if act == "rename" and new in paths:
                continue
            say("begin", act, old, *([new] if act == "rename" else []))
            memory.rename(old, new) if act == "rename" else memory.delete(old)
        else:
            continue
        say("done")


if __name__ == "__main__":
    work(*sys.argv[1:])
