"""The client: what runs on the machines of jobs."""
