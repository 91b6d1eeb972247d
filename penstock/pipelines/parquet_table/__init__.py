"""Parquet tables that tasks write and the driver commits, in the format of Spark's file sink. Not here: any job."""
