"""Producers: records become batches, and batches wait to be sent. Users import them from `penstock`."""
