"""Between protobuf and values by hand, where a compiled codec would not do: record bytes, and the quorum's own calls.

Produce and Fetch pass their record bytes by protobuf (`penstock/wire/records_field.py`); raft's messages tell errors by
code and know no `ApiError`. All other messages have `penstock/wire/message_codec.py`. A function decides nothing. Not
here: a request's limits, which are checked before it is parsed (`grpc/limits.py`), and the error of a whole call
(`grpc/errors.py`).
"""
