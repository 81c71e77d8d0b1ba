"""The HTTP server and what every request passes: bodies, compression, metrics."""
