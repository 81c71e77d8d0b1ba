"""Organizations: API keys and scopes, authentication, ingest addresses and rate limits."""
