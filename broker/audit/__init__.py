"""The audit log: administrative requests, with who did them and from where, refusals, and log-ins."""
