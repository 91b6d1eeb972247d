"""A client of one gRPC service, made from its descriptor: `Stub(channel, "Broker").Metadata(pb.MetadataRequest())`.

For channels of `grpc` and of `grpc.aio`. It checks nothing, so that a test can send what no client of ours would.
"""

from __future__ import annotations

from typing import Any

import grpc
from google.protobuf.message_factory import GetMessageClass

from penstock.pb import broker_pb2, controller_pb2, quorum_pb2, replication_pb2

SERVICES = {
    service.name: service
    for module in (broker_pb2, controller_pb2, quorum_pb2, replication_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
}


class Stub:
    """Has a callable for each method of the service."""

    def __init__(self, channel: Any, service: str) -> None:
        for method in SERVICES[service].methods:
            make = channel.stream_stream if method.client_streaming else channel.unary_unary
            path = f"/{SERVICES[service].full_name}/{method.name}"
            serialize = GetMessageClass(method.input_type).SerializeToString
            call = make(
                path, request_serializer=serialize, response_deserializer=GetMessageClass(method.output_type).FromString
            )
            setattr(self, method.name, call)

    def __getattr__(self, method: str) -> Any:
        raise AttributeError(method)


def serve(server: Any, service: str, **behaviours: Any) -> None:
    """Lets the server answer methods of the service by these functions; requests and answers are messages."""
    methods = SERVICES[service].methods_by_name
    handlers = {}
    for name, behaviour in behaviours.items():
        method = methods[name]
        make = grpc.stream_stream_rpc_method_handler if method.client_streaming else grpc.unary_unary_rpc_method_handler
        parse = GetMessageClass(method.input_type).FromString
        handlers[name] = make(behaviour, parse, GetMessageClass(method.output_type).SerializeToString)
    server.add_registered_method_handlers(SERVICES[service].full_name, handlers)
