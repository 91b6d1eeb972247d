"""The Spark jobs that ship with Penstock, run by `penstock pipeline run JOB --conf FILE` (docs/pipelines.md)."""
