"""Log-in by an identity provider (OpenID Connect Core 1.0, the authorization code flow with PKCE, RFC 7636)."""
