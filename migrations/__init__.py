"""The schema of the service's files, as steps that are only ever added to. `obs.storage` applies them."""
