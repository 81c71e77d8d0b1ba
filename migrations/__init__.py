"""The schema of the service's files, as append-only steps. `obs.storage` applies them."""
