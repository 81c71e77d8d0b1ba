"""Jobs, runs and maintenance windows over HTTP."""
