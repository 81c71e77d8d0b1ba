"""The SQLite files: connections, the group-committing write path, migrations. It knows no table of any area."""
