"""The edge of every command: what users type, how a cluster is reached, errors and exit codes."""
