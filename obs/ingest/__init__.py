"""The heartbeat endpoint: one entry for all heartbeats, and one file for each protocol that clients use."""
