"""The fetched records that a reader gets, by its isolation level."""
