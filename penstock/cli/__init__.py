"""The command line: `penstock` and its commands. It uses the client, and runs no server code in its own process."""
