"""The options of clients: their table, their checks, and what environment variables add."""
