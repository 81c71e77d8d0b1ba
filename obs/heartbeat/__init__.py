"""Cron heartbeats: jobs, runs, schedules, and what is overdue."""
