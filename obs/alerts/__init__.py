"""Incidents: spells in which a job was in trouble."""
