"""The SQLite files: connections, the group commit, migrations. No code here depends on the tables of an area."""
