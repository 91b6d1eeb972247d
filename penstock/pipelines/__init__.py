"""The Spark jobs that ship with Penstock: each a function, and a command `python -m penstock.pipelines.NAME --help`."""
