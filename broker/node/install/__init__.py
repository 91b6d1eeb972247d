"""`penstock node install`: a node as a service of systemd."""
