"""Incidents: times in which a job had a problem."""
