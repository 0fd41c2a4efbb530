"""The reference model: a small transformer with a real KV cache, so that what an edit costs can be counted instead of
believed.

Needs the extra `numpy`; nothing outside this folder imports it unasked.
"""

from importlib.util import find_spec

from contextkit.errors import MissingExtra

if find_spec("numpy") is None:
    raise MissingExtra("the reference model", "numpy")
