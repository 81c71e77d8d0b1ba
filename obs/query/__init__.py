"""OQL: grammar, nodes, check, compile, run, shape."""
