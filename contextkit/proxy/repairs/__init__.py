"""Changes a proxy may make to a request, each off by default and named: the rest of the body keeps its bytes."""
