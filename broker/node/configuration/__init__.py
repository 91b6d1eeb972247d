"""Changes of the configuration under a running node: the file again on SIGHUP, and the metadata's settings."""
