"""Tokens by which users log in (JWT, RFC 7519): whose they are, and the public keys that prove it."""
