"""Consumers: positions, fetching, decoding, groups. Users import them from `penstock`."""
