"""Running a plan within its limits, and putting the result together."""
