"""OQL, the query language: from a statement to its result, over HTTP and for the other areas."""
