"""A report as one HTML file: nothing is fetched, and the browser is told to refuse it.

Takes `Contents` and `Columns`, gives the text of the page. Tables and the tree are HTML; charts are drawn by D3, which
is in the file, from the numbers that are in the file, each with a table behind it. Of a prompt there is what
`Miss.where` says and, where bodies were recorded, the few words around each break, secrets covered.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

from contextkit.canonical import Json, canonical
from contextkit.report.contents import Contents, project_names, session_names
from contextkit.report.html.charts import as_json, drawn, series
from contextkit.report.html.columns import Columns
from contextkit.report.html.sections import sections
from contextkit.terminal import sanitize, sanitize_html


def page(contents: Contents, columns: Columns) -> str:
    """The whole file."""
    ranked = columns.dearest()
    names, projects = session_names(contents), project_names(session.project for session in ranked)
    for session in ranked:
        session.label = names.get(session.name, session.name)
        session.place = projects[session.project] if session.project else ""
    over_time, waterfalls = series(columns, ranked), drawn(ranked, contents)
    data: dict[str, Json] = {"time": as_json(over_time), "sessions": waterfalls}
    body = "".join(sections(contents, ranked, over_time, waterfalls, columns.tree))
    title = f"Prompt cache report: {contents.title}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy()}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="no-referrer">'
        f"<title>{sanitize_html(title)}</title><style>{_asset('page.css')}</style></head>\n"
        f'<body><a class="skip" href="#misses">Skip to the misses</a>\n<main>{body}</main>\n'
        f'<script type="application/json" id="data">{_embedded(data)}</script>\n'
        f"<script>{_asset('d3.min.js')}</script>\n<script>{_asset('page.js')}</script></body></html>\n"
    )


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _policy() -> str:
    """Nothing may be loaded from anywhere; of scripts and styles only our own run, known by their digests."""
    scripts = " ".join(f"'sha256-{_digest(_asset(name))}'" for name in ("d3.min.js", "page.js"))
    style = f"'sha256-{_digest(_asset('page.css'))}'"
    return f"default-src 'none'; script-src {scripts}; style-src {style}; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


def _sanitized(value: Json) -> Json:
    if isinstance(value, dict):
        return {sanitize(name): _sanitized(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_sanitized(item) for item in value]
    return sanitize(value) if isinstance(value, str) else value


def _embedded(data: Json) -> str:
    """JSON that cannot end the element it stands in, its texts sanitized."""
    return (
        canonical(_sanitized(data))
        .decode()
        .replace("<", "\\u003c")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )
