"""Clusters whose nodes are of several releases, which are rolled while their feature levels are raised and lowered."""
