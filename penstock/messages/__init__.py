"""The messages of Penstock's APIs, one frozen record each, and the table of the APIs.

Clients, listeners, handlers and the controller pass the same records. Names are Kafka's, or those that users import.
The fields of a record are those of its protobuf message, in Python's types: `message_codec.py` compiles the way between
the two from the annotations. A field that has another name on the wire, is not on the wire, or is None by a flag beside
it says so (`fields.py`). Not here: protobuf, gRPC, bytes, and whatever decides.
"""
