"""An organization filled with 90 days of believable data, to look around in."""
