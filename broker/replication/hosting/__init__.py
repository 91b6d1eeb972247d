"""The replicas that a broker hosts: created, opened, given roles, and deleted, as the metadata says."""
