"""A private CA for one cluster: makes, renews and shows the certificates of its nodes and clients."""
