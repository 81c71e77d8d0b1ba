"""The rows of jobs, runs and events. Functions take the connection first and return plain data."""
