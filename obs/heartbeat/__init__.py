"""Cron heartbeats: jobs, runs, schedules, what is overdue."""
