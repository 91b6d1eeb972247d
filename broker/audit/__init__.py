"""The audit log: administrative acts, with who did them and from where, refusals, and log-ins."""
