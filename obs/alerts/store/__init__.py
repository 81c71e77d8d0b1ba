"""The rows of incidents and deliveries in an organization's file, and of channels in the control file."""
