"""The requests of consumer groups, by protocol and subject."""
