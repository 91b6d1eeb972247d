"""The numbers of clients for monitoring systems."""
