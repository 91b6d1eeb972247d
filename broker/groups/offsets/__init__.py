"""The offsets that groups commit: their state, and what is decided about them."""
