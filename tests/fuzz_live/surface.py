"""Every RPC that a node may serve, found in the protobuf descriptors: a new one is attacked without being named."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass

from google.protobuf.descriptor import Descriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

import penstock.pb

CLIENT_SERVICE = "Broker"
"""Every other service is between nodes, where a forgery that is right in every part cannot be refused."""


@dataclass(frozen=True, slots=True)
class Method:
    """One RPC. `path` is what HTTP/2 carries."""

    path: str
    service: str
    name: str
    request: Descriptor
    response: Descriptor
    takes_stream: bool
    gives_stream: bool

    @property
    def is_between_nodes(self) -> bool:
        return self.service != CLIENT_SERVICE

    def new_request(self) -> Message:
        """An empty one."""
        return GetMessageClass(self.request)()

    def parse_response(self, data: bytes) -> Message:
        """An answer as a message."""
        return GetMessageClass(self.response).FromString(data)

    def __str__(self) -> str:
        return f"{self.service}.{self.name}"


def all_methods() -> list[Method]:
    """The methods of every service in penstock/pb, in a steady order."""
    found: list[Method] = []
    for module in pkgutil.iter_modules(penstock.pb.__path__):
        if module.name.endswith("_pb2"):
            services = importlib.import_module(f"penstock.pb.{module.name}").DESCRIPTOR.services_by_name
            found += [_method(method) for service in services.values() for method in service.methods]
    return sorted(found, key=lambda method: method.path)


def _method(method: MethodDescriptor) -> Method:
    return Method(
        path=f"/{method.containing_service.full_name}/{method.name}",
        service=method.containing_service.name,
        name=method.name,
        request=method.input_type,
        response=method.output_type,
        takes_stream=method.client_streaming,
        gives_stream=method.server_streaming,
    )
