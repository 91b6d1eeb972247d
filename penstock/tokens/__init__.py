"""Signed tokens (JWT, RFC 7519), for all who take them: the keys of an issuer, and the claims that they have signed."""
