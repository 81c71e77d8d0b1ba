"""From text to a checked plan: the grammar, its nodes, functions, types and errors."""
