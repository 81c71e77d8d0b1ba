"""Annotations: markers and bands laid over charts, kept 90 days."""
