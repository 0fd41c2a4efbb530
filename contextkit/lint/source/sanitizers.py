"""What makes a varying value stable, or leads nowhere near a prompt.

Takes nothing, gives tables; the walk and the linking read them.
"""

from __future__ import annotations

import re
from typing import Final, get_args

from contextkit.lint.source.rule import Kind, Sink


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ORDER: Final[frozenset[Kind]] = frozenset({"unordered", "paths", "mapping", "rows"})
"""Kinds that are an order nobody promised."""
EVERYTHING: Final[frozenset[Kind]] = frozenset(get_args(Kind))
"""All kinds."""
MESSAGES: Final[frozenset[Kind]] = EVERYTHING - {"user"}
"""Kinds that do not get out of a history again with one of its messages."""

CALLS: Final[dict[str, frozenset[Kind]]] = {
    "sorted": ORDER,
    "natsort.natsorted": ORDER,
    "heapq.nsmallest": ORDER,
    "contextkit.canonical.dump": ORDER | {"unsorted_json"},
    "rfc8785.dumps": ORDER | {"unsorted_json"},
    "canonicaljson.encode_canonical_json": ORDER | {"unsorted_json"},
}
"""Full name of a function → what no longer varies in its result."""
JSON_DUMPS: Final[frozenset[str]] = frozenset(
    {"json.dumps", "orjson.dumps", "ujson.dumps", "simplejson.dumps", "rapidjson.dumps"}
)
"""Serialisers that keep the order of keys they are given, unless an argument below says otherwise."""
TAKES_SORT_KEYS: Final[frozenset[str]] = frozenset({"json.dumps", "simplejson.dumps"})
"""Those that take `sort_keys=True`."""
SORTING_WORDS: Final[tuple[str, ...]] = ("sort_keys", "OPT_SORT_KEYS")
"""What such a call says when it sorts."""

CLEAN_CALLS: Final[frozenset[str]] = _words("""
    len bool isinstance issubclass hasattr callable any all type print range super min max sum abs round logging.debug
    logging.info logging.warning logging.error logging.exception logging.getLogger warnings.warn time.sleep asyncio.sleep
    os.path.exists os.path.isfile os.path.isdir os.makedirs isinstance inspect.signature inspect.isawaitable
    inspect.iscoroutinefunction asyncio.iscoroutinefunction
""")
"""Their result says nothing of their arguments' text."""
CLEAN_METHODS: Final[frozenset[str]] = _words("""
    debug info warning warn error exception critical set_attribute set_attributes set_status add_event record_exception
    startswith endswith isdigit isalpha isalnum isspace isupper islower exists is_file is_dir is_dir mkdir unlink count index
    find start_as_current_span start_span set_tag emit track capture increment histogram observe total_seconds
""")
"""Methods whose result says nothing of the arguments, and that show a prompt to no model: logging, tracing, questions
about a text."""
ANSWERED: Final[frozenset[str]] = frozenset({"post", "put", "patch", "request", "urlopen", "fetch"})
"""Methods whose result is what a server says: nothing of what it was asked with."""
LOOKED_UP: Final[frozenset[Kind]] = frozenset(
    {
        "id",
        "person",
        "user",
        "environ",
        "place",
        "entries",
        "counter",
        "jumbled",
        "unordered",
        "paths",
        "mapping",
        "unsorted_json",
    }
)
"""Kinds a function that is not known looks something up with, rather than put them into its result."""
TEXT_CALLS: Final[frozenset[str]] = _words("""
    str format format_map join replace strip lstrip rstrip dedent indent fill shorten render render_async arender from_string
    encode decode lower upper title capitalize list tuple dict set reversed enumerate zip map filter iter next append extend
    insert add update copy deepcopy isoformat strftime hex repr ascii pop get setdefault splitlines split partition removeprefix
    removesuffix expandtabs concat chain substitute safe_substitute dumps expanduser resolve absolute joinpath abspath basename
    dirname as_posix normpath realpath Template PromptTemplate int float islice cycle Path to_thread run_in_executor gather
    wait_for read readlines readline getvalue cast first last from_template from_iterable fromkeys items values keys union
""")
"""Last names of functions whose result holds the text, or the items, of their arguments."""
STORED: Final[dict[str, bytes]] = {"write_text": b".read_text(", "set": b".get("}
"""Method that stores a value → the one of the same object that reads what was stored the last time."""
FREEZING_DECORATORS: Final[frozenset[str]] = frozenset(
    {"cache", "lru_cache", "cached_property", "cached", "alru_cache", "once", "memoize"}
)
"""Last names of decorators that keep a result."""

ONCE: Final[frozenset[str]] = _words("""
    __init__ __post_init__ __new__ __init_subclass__ __set_name__ __attrs_post_init__ __aenter__ __enter__ main _main amain
    async_main model_post_init startup on_startup lifespan
""")
"""Functions a session runs once."""

SAME_FOR_A_SESSION: Final[frozenset[Kind]] = frozenset({"place", "person"})
"""Kinds that only tell one session from another."""
END_OF_PROMPT: Final = 120
"""Characters behind such a value up to which nothing worth sharing follows."""
WHOLE_PROMPT: Final = 400
"""Characters from which on an f-string is a prompt and no section of one."""
ANEW: Final[re.Pattern[str]] = re.compile(r"^_*(?:clear|reset|restart|new_|start_new|begin_)")
"""A function of such a name begins another conversation, which may have another cache key."""

SURVIVES: Final[dict[Kind, frozenset[Sink]]] = {
    "id": frozenset({"cache_key", "salt"}),
    "place": frozenset({"system", "tool", "tools", "schema", "front", "marked"}),
    "unordered": frozenset({"tools", "schema"}),
    "paths": frozenset({"tools", "schema"}),
    "person": frozenset(),
}
"""Made once per session and still a hazard: an id as cache key is new after each restart, a folder's name forks the
prefix per machine, the order of a set differs between processes."""
