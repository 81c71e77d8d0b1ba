"""Heartbeats on their way in: the one endpoint, and the protocols that it speaks."""
