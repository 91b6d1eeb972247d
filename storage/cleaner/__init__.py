"""The cleaner: compacts logs, and keeps their offsets dense."""
