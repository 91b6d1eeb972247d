"""Quorums whose voters change while everything else happens (KIP-853), and what must hold of their sets."""
