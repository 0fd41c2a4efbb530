"""What varies: which names stand for a clock, an id, a folder, an order nobody promised.

Takes nothing, gives tables; the walk reads them. A new source is a row here, or in `[tool.contextkit.lint.sources]` of
a project.
"""

from __future__ import annotations

import re
from typing import Final

from contextkit.lint.source.rule import Kind


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _rows(kind: Kind, names: str) -> dict[str, Kind]:
    return dict.fromkeys(names.split(), kind)


CALLS: Final[dict[str, Kind]] = {
    **_rows(
        "clock",
        """
        datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today time.time time.time_ns time.strftime time.ctime
        time.asctime time.localtime time.gmtime time.monotonic time.perf_counter arrow.now arrow.utcnow arrow.Arrow.now
        arrow.Arrow.utcnow pendulum.now whenever.Instant.now whenever.ZonedDateTime.now django.utils.timezone.now
        django.utils.timezone.localtime pandas.Timestamp.now pandas.Timestamp.utcnow numpy.datetime64 email.utils.formatdate
        moment.now maya.now delorean.utcnow""",
    ),
    **_rows(
        "date",
        "datetime.date.today pendulum.today arrow.Arrow.today whenever.Date.today_in_system_tz pandas.Timestamp.today",
    ),
    **_rows(
        "id",
        """
        uuid.uuid1 uuid.uuid4 uuid.uuid6 uuid.uuid7 secrets.token_hex secrets.token_urlsafe secrets.token_bytes
        secrets.randbelow secrets.randbits random.random random.randint random.randrange random.uniform random.getrandbits
        random.randbytes random.gauss os.urandom shortuuid.uuid shortuuid.ShortUUID nanoid.generate ulid.new ulid.ULID ksuid.ksuid
        ksuid.Ksuid xid.XID cuid.cuid cuid2.Cuid bson.ObjectId bson.objectid.ObjectId numpy.random.rand numpy.random.randn
        numpy.random.randint numpy.random.random hash tempfile.mktemp opentelemetry.trace.get_current_span""",
    ),
    **_rows(
        "choice",
        """
        random.choice random.choices random.sample random.shuffle secrets.choice numpy.random.choice numpy.random.permutation
        numpy.random.shuffle random.SystemRandom.choice""",
    ),
    **_rows(
        "place",
        """
        os.getcwd os.getcwdb pathlib.Path.cwd pathlib.Path.home os.uname os.getlogin os.getpid os.cpu_count os.get_terminal_size
        shutil.get_terminal_size shutil.disk_usage socket.gethostname socket.getfqdn platform.node platform.platform platform.system
        platform.release platform.version platform.machine platform.uname platform.python_version platform.mac_ver getpass.getuser
        tempfile.mkdtemp tempfile.gettempdir tempfile.mkstemp tempfile.NamedTemporaryFile tempfile.TemporaryDirectory
        distro.name git.Repo git.Repo.init psutil.virtual_memory psutil.cpu_percent locale.getlocale
        tzlocal.get_localzone tzlocal.get_localzone_name""",
    ),
    **_rows("environ", "os.getenv os.environ.get os.environ.copy os.getenvb decouple.config environs.Env.str"),
    **_rows("paths", "os.listdir os.scandir os.walk glob.glob glob.iglob"),
    **_rows(
        "unordered",
        """
        set frozenset asyncio.as_completed asyncio.wait
        concurrent.futures.as_completed concurrent.futures.wait importlib.metadata.entry_points importlib.metadata.distributions
        pkg_resources.iter_entry_points""",
    ),
    **_rows("mapping", "vars globals locals collections.Counter"),
    **_rows(
        "file",
        """
        pathlib.Path.read_text pathlib.Path.read_bytes open io.open aiofiles.open codecs.open anyio.open_file linecache.getline""",
    ),
    **_rows("user", "input click.prompt typer.prompt rich.prompt.Prompt.ask questionary.text prompt_toolkit.prompt"),
    **_rows(
        "server",
        """
        langchain_mcp_adapters.tools.load_mcp_tools mcp.ClientSession.list_tools fastmcp.Client.list_tools
        langchain_mcp_adapters.client.MultiServerMCPClient.get_tools strands.tools.mcp.MCPClient.list_tools_sync
        strands.tools.mcp.mcp_client.MCPClient.list_tools_sync composio.ComposioToolSet.get_tools
        smolagents.ToolCollection.from_mcp litellm.experimental_mcp_client.load_mcp_tools agents.mcp.MCPUtil.get_all_function_tools""",
    ),
    **_rows("media", "base64.b64encode PIL.Image.open PIL.Image.new cv2.imencode"),
    **_rows(
        "recall", "mem0.Memory.search mem0.MemoryClient.search mem0.Memory.get_all zep_cloud.client.Zep.memory.get"
    ),
}
"""Full name of a function or class → what its result is."""

GIVEN_A_TIME: Final[dict[str, int]] = {
    "time.strftime": 2,
    "time.localtime": 1,
    "time.gmtime": 1,
    "time.ctime": 1,
    "time.asctime": 1,
}
"""Functions that write a time they are given: with so many arguments they read no clock."""

METHODS: Final[dict[str, Kind]] = {
    **_rows(
        "recall",
        """
        similarity_search asimilarity_search similarity_search_with_score max_marginal_relevance_search get_relevant_documents
        aget_relevant_documents retrieve_memories search_memories search_memory recall_memories recall get_memory_context
        load_memory_variables query_memory search_knowledge_base get_relevant_memories fetch_memories query_points
        similarity_search_by_vector""",
    ),
    **_rows("rows", "fetchall fetchmany"),
    **_rows(
        "server",
        "list_tools list_tools_sync get_mcp_tools load_mcp_tools fetch_tools discover_tools list_mcp_tools alist_tools",
    ),
    **_rows("unordered", "as_completed intersection difference symmetric_difference"),
    **_rows("paths", "iterdir rglob"),
    **_rows("mapping", "values items keys"),
    **_rows("file", "read_text read_bytes"),
    **_rows("clock", "utcnow"),
    **_rows("id", "uuid4 hexdigest_of_request token_hex"),
    **_rows("media", "thumbnail tobytes"),
    **_rows("place", "active_branch get_terminal_size"),
}
"""Last name of a method of any object → what its result is."""

RETRIEVER_METHODS: Final[dict[str, Kind]] = _rows(
    "recall", "search asearch query aquery invoke ainvoke retrieve aretrieve get recall aget fetch"
)
"""Methods that recall something when the object's own name says that it is a memory: `self.memory.search(query)`."""
RETRIEVERS: Final[tuple[str, ...]] = (
    "retriever",
    "memory",
    "vectorstore",
    "vector_store",
    "knowledge_base",
    "mem0",
    "memories",
    "zep",
    "mem",
)
"""Ends of the names of such objects."""
STORES: Final[tuple[str, ...]] = ("store", "index", "collection")
"""Ends of the names of what is such an object where it is searched by a text or a vector."""
SEARCHED_BY: Final[frozenset[str]] = _words("query vector")
"""Keyword arguments of such a search."""
NEAREST_TO: Final[frozenset[str]] = _words("query_texts query_embeddings query_vector")
"""Keyword arguments of a search by meaning, whatever is searched."""
_FOUND: Final[frozenset[str]] = _words(
    "results matches points payload metadata memory memories documents document hits nodes node data"
)
TITLES: Final[frozenset[str]] = _words("title description name")
"""What a plan has once, and each of its tasks."""
_DONE: Final[frozenset[str]] = TITLES | _words("tasks steps todos items state status done")
PARTS: Final[dict[str, frozenset[Kind]]] = {
    **dict.fromkeys(_FOUND, frozenset[Kind]({"recall"})),
    **dict.fromkeys(_DONE, frozenset[Kind]({"plan"})),
}
"""Attributes and keys through which what was found, or a plan, is read, besides those of any text → the kinds that they
hold."""
PLAN: Final[re.Pattern[str]] = re.compile(r"^_*(?:\w+_)?(?:plan|todos?|tasks|checklist|(?:todo|task)_list)$")
"""What a loop that asks the model works off, where its condition looks at it."""

ATTRIBUTES: Final[dict[str, Kind]] = {
    **_rows("environ", "os.environ"),
    **_rows("place", "sys.platform sys.argv sys.version os.name sys.executable sys.path"),
}
"""Full names of variables that vary."""

FIELDS: Final[dict[str, Kind]] = {
    **_rows(
        "person",
        """
        user_name username user_display_name first_name full_name tenant tenant_id tenant_name locale user_locale
        user_id user_email organization_name user_timezone customer_name""",
    ),
    **_rows("user", "user_input user_query user_message user_prompt last_user_message user_text user_question"),
    **_rows("plan", "todos todo_list current_plan plan_state scratchpad task_list todo_items"),
    **_rows("id", "request_id trace_id run_id span_id invocation_id message_id correlation_id"),
    **_rows("place", "cwd git_branch git_status working_directory working_dir"),
    **_rows("clock", "current_time current_datetime now_str current_timestamp"),
    **_rows("date", "current_date today today_str todays_date"),
    **_rows(
        "recall",
        "relevant_memories retrieved_docs retrieved_documents memory_context retrieved_context recalled_memories",
    ),
    **_rows("model", "fallback_model current_model"),
}
"""Names of parameters, attributes and dict keys that say what they hold: `ctx.deps.user_name`, `state["todos"]`."""
PERSONAL: Final[frozenset[str]] = _words("name email display_name")
"""Attributes that say who somebody is."""
PEOPLE: Final[frozenset[str]] = _words("user current_user tenant customer organization")
"""Names of those they are read of: `user.name`, `request.user.email`."""

SETTINGS: Final[re.Pattern[str]] = re.compile(
    r"(?:^|_)(?:settings|config|cfg|options|opts|sources|flags|spec|schema)$", re.IGNORECASE
)
"""What holds settings: an attribute `user_input` of one says whether to take it, and is not what was said."""

DAY_FIELDS: Final[frozenset[str]] = frozenset({"year", "month", "day"})
"""Attributes that make a clock a date."""
TEXT_PARTS: Final[frozenset[str]] = DAY_FIELDS | _words("""
    hex int stdout output text content contents page_content value values data body prompt template message messages
    template_string columns hour minute second microsecond parts
""")
"""Attributes and keys through which an object's own text is read; any other part of an object need not hold what the
object was made of."""

PARAMETERS: Final[dict[str, Kind]] = {
    **{name: kind for name, kind in FIELDS.items() if kind not in {"clock", "date", "place"}},
    **_rows("user", "query question"),
}
"""Parameters that say what they hold. A clock handed in is judged where it is read."""

LISTINGS: Final[frozenset[str]] = _words("""
    skills available_skills sub_agents subagents managed_agents available_agents team_members handoffs available_models
    model_names loaded_skills skill_list agent_cards
""")
"""Collections whose members change while a program runs; going through one gives kind `listing`."""
MODEL_LISTS: Final[frozenset[str]] = _words("""
    models fallback_models fallbacks model_list candidate_models model_fallbacks
""")
"""Collections of model names; an element of one is kind `model`."""

MODEL_KEYS: Final[frozenset[str]] = _words("model model_id model_name selected_model selected_model_id")
"""Keys of a request, or of what is known of one, that say which model: no part of its text."""

LISTS_PATHS: Final[frozenset[str]] = frozenset({"listdir", "glob", "iglob", "iterdir", "rglob"})
"""Last names of functions that list names or paths, which can be sorted."""
FILLED: Final[re.Pattern[str]] = re.compile(
    r"(?:^|_)(?:state|context|profile|preferences|prefs|facts|variables|vars|overrides|config|settings|options|memory|memories)$",
    re.IGNORECASE,
)
"""Names of a mapping that is filled while the program runs and told again and again; an event is told once, as it came.
"""
MAPPINGS: Final[re.Pattern[str]] = re.compile(
    r"^['\"]?(?:typing\.|t\.|collections\.abc\.|abc\.)?(?:dict|Dict|Mapping|MutableMapping)\b"
)
"""Annotations of a mapping."""
LOADS: Final[frozenset[str]] = frozenset({"json.loads", "json.load", "orjson.loads", "vars", "os.environ.copy"})
"""Full names of functions that give a mapping in the order of who wrote it."""
LOADING: Final[frozenset[str]] = frozenset({"json", "fetchone", "hgetall"})
"""Last names of methods that do: `response.json()`, `cursor.fetchone()`."""

GIT: Final[tuple[str, ...]] = (
    "subprocess.run",
    "subprocess.check_output",
    "subprocess.getoutput",
    "subprocess.Popen",
    "os.popen",
)
"""Their result is kind `place`: what a command says about this machine."""
TELLS_PLACE: Final[re.Pattern[str]] = re.compile(
    r"\b(?:git|uname|hostname|whoami|pwd|sw_vers|lsb_release|nvidia-smi|tree|ls|hostnamectl|systeminfo|ver|which|branch|rev-parse)\b"
)
"""What such a command says when it asks about the machine or the folder, rather than fetch a page."""
ASIDE: Final[frozenset[str]] = _words("""
    timestamp created_at updated_at sent_at created ts id uid uuid message_id msg_id metadata last_access last_used duration elapsed
    latency usage cost additional_kwargs response_metadata headers timeout start_time end_time
""")
"""Keys and keyword arguments of a message, and of what keeps one, that are not sent as its text."""
PLACEHOLDER: Final[re.Pattern[str]] = re.compile(r"(?:^|_)(?:placeholder|sentinel)$", re.IGNORECASE)
"""Names of an id that is put into a text to be found there and taken out again."""
TAKEN_OUT: Final[frozenset[Kind]] = frozenset({"id"})
"""What such a name no longer holds."""
BESIDE: Final[frozenset[str]] = _words("metadata headers")
"""Keys of any mapping that is handed on, whose values stand beside a request's text and not in it."""


def is_aside(name: object) -> bool:
    """Whether a keyword says which one or when, and not what is written."""
    return isinstance(name, str) and (name in ASIDE or name.endswith(("_id", "_at", "_ids")))


DAY_FORMAT: Final[frozenset[str]] = frozenset("HMSfIpsTXcrR")
"""Directives of strftime finer than a day; a format without them makes a clock a date."""
_DAYS: Final[re.Pattern[str]] = re.compile(r"(?:\[[^\]]*\]|Y{2,4}|M{1,4}|D{1,4}o?|Do|d{1,4}|W|Q|[\s,./:\-()]){3,}")


def names_a_day(node: object) -> bool:
    """Whether a constant is a format of arrow or pendulum no finer than a day: `YYYY-MM-DD`, `dddd, MMMM D`."""
    text = getattr(node, "value", None)
    return isinstance(text, str) and bool(_DAYS.fullmatch(text)) and ("YY" in text or "DD" in text or "MM" in text)


DAY_METHODS: Final[frozenset[str]] = frozenset(
    {"date", "to_date_string", "toordinal", "isocalendar", "weekday", "isoweekday"}
)
"""Methods and attributes that make a clock a date."""
FLAGS: Final[dict[str, Kind]] = {
    "model": "model",
    "model_name": "model",
    **_rows(
        "flag",
        "effort reasoning_effort tool_choice thinking response_format reasoning extra_headers chat_template_kwargs",
    ),
}
"""Names whose value, set in one branch only, is a setting chosen per call."""
