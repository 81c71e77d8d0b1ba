"""The rows of jobs, runs, events and maintenance windows. Functions take the connection first."""
