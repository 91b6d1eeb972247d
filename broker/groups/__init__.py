"""The coordinators of consumer groups (KIP-848 and the classic protocol), and the offsets that groups commit."""
