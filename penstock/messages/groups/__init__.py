"""The messages of consumer groups, by protocol and subject, and their APIs as rows."""
