"""The rights that each API needs of its caller, and what of an answer it may see."""
