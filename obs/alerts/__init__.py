"""Incidents, which are times in which a job had a problem; alerts on queries; channels and what they are sent."""
