"""Errors with a wire code, by subject. Users import the names from penstock.errors, where the others are."""
