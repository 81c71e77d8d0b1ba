"""From a checked plan, and a scan that reads it, to SQL."""
