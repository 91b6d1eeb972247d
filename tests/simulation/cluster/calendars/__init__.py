"""Nodes whose calendars are days and years wrong, and what must not be forgotten by that."""
