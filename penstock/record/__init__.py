"""Record batches of magic 2: header in place, varints, codecs, bulk builder and reader, and the same for Arrow.

`batch` is what a broker needs (it never looks inside a batch), `builder` and `reader` are what a client needs, `arrow`
is for tables. Nothing is imported here, because only `arrow` may pull in numpy and pyarrow.
"""
