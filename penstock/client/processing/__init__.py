"""Read, process, write, each record's effect exactly once: `penstock.process`."""
