"""From a checked plan to SQL."""
