"""OQL, the query language: from the text of a statement to nodes, and from these to a checked plan."""
