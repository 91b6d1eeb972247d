"""Decides who may do what: ACLs, the rights that follow from them, and what each API needs."""
