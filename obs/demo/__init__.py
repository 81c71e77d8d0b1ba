"""An organization with 90 days of plausible data, to explore."""
