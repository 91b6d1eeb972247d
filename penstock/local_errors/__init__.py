"""Errors that never cross a wire, by subject. Users import the names from penstock.errors, where the others are."""
