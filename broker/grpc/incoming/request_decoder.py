"""Checks the bytes of a request against the limits of its API, and parses them into its message. An edge.

The number of bytes is checked first: that costs nothing. A message of fewer bytes than the smallest element limit
cannot have too many elements, and most are that small. The elements of others are counted by a walk over the wire
(wire_walk.py). Protobuf parses only after that, because its parser makes an object for every element. A failure of the
parser is a typed error, too. The batches of a Produce are counted last (produced_batches.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from broker.grpc import quorum_codec as quorum
from broker.grpc.incoming.wire_walk import Field, Shape, WireWalk
from broker.grpc.produced_batches import check_batches
from broker.network.decoding_turns import LONG
from penstock.errors import InvalidRequestError, InvariantViolation
from penstock.messages.api import Api, ApiKind
from penstock.messages.client_apis import FETCH, PRODUCE
from penstock.messages.produce import ProduceRequest
from penstock.wire import streams
from penstock.wire.message_codec import message_descriptor, request_codec

STEPS_BESIDES = 1_000
"""Fields that a request may have besides its elements and their fields: its own, and those of a newer client."""
STEPS_OF_ONE = 10
"""More fields than an element has."""
_OF_BYTES = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE)


class RequestDecoder:
    """Decodes the requests of one API. `message_bytes_max` is socket.request.max.bytes."""

    def __init__(self, api: Api[Any, Any], message_bytes_max: int) -> None:
        descriptor = message_descriptor(f"{api.name}Request")
        self.refused = 0
        self.received_bytes = 0
        self.api = api.name
        self._bytes_max = min(api.limits.message_bytes or message_bytes_max, message_bytes_max)
        self._limits = dict(api.limits.elements)
        self._decode = _decode(api)
        self._steps_max = STEPS_BESIDES
        self.walk_from_bytes = self._bytes_max + 1
        """A smaller message has so few elements that it exceeds no limit and is no long work. A walk over a message
        with records is short: it takes 3 us for one partition."""
        self._shape = self._shape_of(descriptor, "")
        if self._limits:
            raise InvariantViolation(f"{api.name}: the limits name fields that do not exist: {', '.join(self._limits)}")

    def decode(self, raw: bytes) -> Any:
        """The request; InvalidRequestError names the limit that it exceeds, or says that it is no message."""
        return self.counted(raw)[0]

    def counted(self, raw: bytes) -> tuple[Any, int]:
        """The request, and the number of its elements; 0 for a small message."""
        self.received_bytes += len(raw)
        try:
            elements = sum(self.check(raw).values())
            return self._decode(raw), elements
        except DecodeError as error:
            self.refused += 1
            raise InvalidRequestError(f"{self.api}: the request is not a message: {error}") from None
        except InvalidRequestError:
            self.refused += 1
            raise

    def check(self, raw: bytes) -> dict[str, int]:
        """Check the bytes against the limits. The counts, by path; empty if the message is too small to have many."""
        if len(raw) > self._bytes_max:
            raise InvalidRequestError(
                f"{self.api}: the request has {len(raw)} bytes; at most {self._bytes_max} are allowed, send several "
                "requests"
            )
        return self.count(raw) if len(raw) >= self.walk_from_bytes else {}

    def count(self, raw: bytes) -> dict[str, int]:
        """Elements of every repeated field."""
        return WireWalk(self.api, raw, self._steps_max).run(self._shape)

    def elements(self, raw: bytes, most: int) -> int:
        """The count of a message's elements, up to `most`; `most` as well if it is known to be refused. A larger
        message costs no more than one of `most` elements."""
        if len(raw) < self.walk_from_bytes:
            return 0
        try:
            return min(sum(WireWalk(self.api, raw, STEPS_OF_ONE * most).run(self._shape).values()), most)
        except InvalidRequestError:
            return most

    def _shape_of(self, descriptor: Descriptor, prefix: str) -> Shape:
        """The shape of a message; takes its fields' limits out of `_limits`. No message of ours contains itself."""
        fields: dict[int, Field] = {}
        for found in descriptor.fields:
            path = f"{prefix}{found.name}"
            limit = self._take_limit(path, found) if found.is_repeated else None
            message = found.message_type
            shape = self._shape_of(message, f"{path}.") if message is not None else None
            if limit is not None or shape is not None:
                fields[found.number] = Field(path, limit, found.type not in _OF_BYTES, shape)
        has_repeated = any(
            one.limit is not None or (one.message is not None and one.message.has_repeated) for one in fields.values()
        )
        return Shape(fields, has_repeated)

    def _take_limit(self, path: str, found: FieldDescriptor) -> int:
        if path not in self._limits:
            raise InvariantViolation(f"{self.api}.{path} is repeated and has no limit; add it to the row of the API")
        limit = self._limits.pop(path)
        message = found.message_type
        self._steps_max += limit * (1 + (len(message.fields) if message is not None else 0))
        bytes_of_one = 2 if found.type in _OF_BYTES else 1
        self.walk_from_bytes = min(self.walk_from_bytes, bytes_of_one * min(limit, LONG))
        return limit

    def __repr__(self) -> str:
        return f"RequestDecoder({self.api}, at most {self._bytes_max} bytes, {self.refused} refused)"


def _decode(api: Api[Any, Any]) -> Callable[[bytes], Any]:
    """Makes the request of its bytes. Streams and the quorum have codecs of their own."""
    if api is PRODUCE:
        return _produce_request
    if api is FETCH:
        return streams.fetch_request_from_bytes
    return quorum.request_from_bytes(api.name) if api.kind is ApiKind.QUORUM else request_codec(api).decode


def _produce_request(raw: bytes) -> tuple[streams.Header, ProduceRequest]:
    header, request = streams.produce_request_from_bytes(raw)
    check_batches(request)
    return header, request


class RequestDecoders:
    """The decoders of a node's listeners, by API."""

    def __init__(self, message_bytes_max: int) -> None:
        self._message_bytes_max = message_bytes_max
        self._decoders: dict[str, RequestDecoder] = {}

    def of(self, api: Api[Any, Any]) -> RequestDecoder:
        """The decoder of an API; made when first asked for."""
        decoder = self._decoders.get(api.name)
        if decoder is None:
            decoder = self._decoders[api.name] = RequestDecoder(api, self._message_bytes_max)
        return decoder

    def received_bytes(self) -> Counter[str]:
        """Bytes of the requests that came, refused ones too, since the node's start, by API."""
        return Counter({api: decoder.received_bytes for api, decoder in self._decoders.items()})

    def refused(self) -> Counter[str]:
        """Requests that were refused here since the node's start, by API."""
        return Counter({api: decoder.refused for api, decoder in self._decoders.items() if decoder.refused})
