"""How a request reaches an SDK that takes no prepared bytes; every other leaves through `providers/request.py`."""
