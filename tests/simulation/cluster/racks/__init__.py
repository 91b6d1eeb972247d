"""Racks: consumers that read at followers (KIP-392), and what must hold of them (I95, I96)."""
