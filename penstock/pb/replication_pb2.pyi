from penstock.pb import broker_pb2 as _broker_pb2
from penstock.pb import transactions_pb2 as _transactions_pb2
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor
