"""Tells a person what a command waits for."""
