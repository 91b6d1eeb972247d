"""Recovery at a start: finds torn tails and rot, and builds anew what a crash has left undone."""
