"""The machine under a Spark process: its Java, and the memory of its Python workers."""
