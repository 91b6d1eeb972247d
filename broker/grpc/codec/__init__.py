"""Between protobuf and values: a module for each API, with a function for each message and direction.

The rest of a broker works with values (`broker/requests.py`, `metadata/requests.py`, `raft/messages.py`), so only these
modules and the doors know the protos. A function decides nothing: the API judges what a value means. Not here: a
request's limits, which are checked before it is parsed (`grpc/limits.py`), and the error of a whole call
(`grpc/errors.py`).
"""
