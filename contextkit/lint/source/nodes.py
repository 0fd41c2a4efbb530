"""What `ast` has, in a module whose names are found at once.

Takes and gives nothing of its own. Since Python 3.12 the module `ast` has a `__getattr__`, for which the interpreter
looks up each of its names anew, every time: `ast.Call` took five times as long as `nodes.Call`, and the walk asks for
such names several times for each node.
"""

from ast import *  # noqa: F403
