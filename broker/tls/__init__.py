"""Certificates of a node: their files, what is in them, and TLS at its listeners and towards other nodes."""
