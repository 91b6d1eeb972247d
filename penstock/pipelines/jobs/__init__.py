"""The jobs: one module for each name of `penstock pipeline run`."""
