"""`python -m tests.benchmarks.workloads [--full] [--only NAME] [--contender NAME]
[--json] [--out FILE] [--from FILE] [--page FILE]`.

Runs every workload with every contender that is installed and prints Markdown tables; `docs/research/workloads.md` holds
the totals of `--full`, `docs/research/workloads.csv` its rows. Without `--full` each workload is a short session of the same shape.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

from tests.benchmarks.workloads.scenarios import workloads
from tests.benchmarks.workloads.selection import contenders_of, skipped, versions
from tests.benchmarks.workloads.table import markdown
from tests.benchmarks.workloads.workload import WHOLE, Row, run

REDUCED = 0.2
BEGIN, END = "<!-- results -->", "<!-- end -->"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.workloads", description=__doc__)
    parser.add_argument("--full", action="store_true", help="whole sessions instead of short ones")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="workloads whose name begins so")
    parser.add_argument("--contender", action="append", default=[], metavar="NAME", help="contenders named so")
    parser.add_argument("--json", action="store_true", help="rows as JSON instead of tables")
    parser.add_argument("--out", metavar="FILE", help="keep rows in FILE as JSON lines, and skip what it holds")
    parser.add_argument("--from", dest="source", metavar="FILE", help="print the tables of such a file, run nothing")
    parser.add_argument(
        "--page", metavar="FILE", help="put the table of totals between the marks of a page instead of printing tables"
    )
    options = parser.parse_args()
    scale = 1.0 if options.full else REDUCED
    rows: list[Row] = []
    kept = options.source or options.out
    if kept and Path(kept).exists():
        rows = [Row(**json.loads(line)) for line in Path(kept).read_text().splitlines()]
    done = {(row.workload, row.contender, row.settings) for row in rows}
    titles = {}
    for name, build in workloads(scale):
        workload = build()
        titles[name] = workload.title
        if options.source or (options.only and not any(name.startswith(one) for one in options.only)):
            continue
        for contender in contenders_of(name):
            key = (name, contender.name, contender.settings)
            if key in done or (options.contender and contender.name not in options.contender):
                continue
            began = time.perf_counter()
            row = unchanged(rows, key) or run(contender, build())
            seconds = time.perf_counter() - began
            rows.append(row)
            if options.out:
                with Path(options.out).open("a") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
            cost = "" if row.cost_usd is None else f"${row.cost_usd:.4f}"
            print(
                f"{name} · {contender.name} · {contender.settings}: {cost} {row.error} ({seconds:.1f} s)",
                file=sys.stderr,
            )
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
        return
    tables = markdown(rows, titles, versions(), skipped(), is_full=options.full)
    if options.page:
        replace_results(Path(options.page), tables.partition("\n### ")[0])
    else:
        print(tables)


def unchanged(rows: list[Row], key: tuple[str, str, str]) -> Row | None:
    """The row of the research run in which nothing is read back, where it is the same run at every rate.

    Where every page stands in the window to the end the model reads nothing back, so each request is the same.
    """
    workload, contender, settings = key
    if not workload.startswith("research"):
        return None
    for row in rows:
        is_same = (row.workload, row.contender, row.settings) == ("research 0", contender, settings)
        if is_same and not row.error and set(row.facts) == {"window"} and row.seen_share >= WHOLE:
            return replace(row, workload=workload)
    return None


def replace_results(page: Path, tables: str) -> None:
    """Put `tables` between the marks of a page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{tables.strip()}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
