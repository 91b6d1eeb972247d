"""Commands that read files of nodes, in another process: `penstock log` and `penstock metadata`."""
