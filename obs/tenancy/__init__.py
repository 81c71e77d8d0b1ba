"""Organizations, their API keys and scopes, their ingest addresses and request rates."""
