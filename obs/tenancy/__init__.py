"""Organizations: keys, users and sessions, limits, the audit log, and the clock of the server."""
