"""The HTTP server, and what applies to every request: middleware, bodies, metrics."""
