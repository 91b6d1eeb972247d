"""DescribeMetadata: the metadata at one offset as this node's own files have it, its digest or its records in pages.

    request ── applied here, and kept? ──► a thread reads the files ──► digest and lines, kept for the next page

Only what this node has applied is shown, because that is committed; the files may hold more. Offsets that it does not
keep any more are refused, also those that went while the files were read.

One answer is under way at a time, because each costs time and memory in proportion to the metadata: while the files are
read, and as long as pages are asked for, at most KEPT_MS after the last one. Requests at other offsets are refused
meanwhile. Not here: reading (`metadata_reader.py`).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable

from broker.network.failed_requests import FailRequest
from broker.network.request_channel import Request
from broker.quorum.metadata_reader import InsideDecisionError, read_metadata
from metadata.image import shown_lines
from penstock.errors import (
    InvalidRequestError,
    KafkaStorageError,
    NetworkError,
    OffsetOutOfRangeError,
    PenstockError,
    PositionOutOfRangeError,
    ResourceExhaustedError,
)
from penstock.lazy_dataclass import dataclass
from penstock.messages.quorum import DescribeMetadataRequest, DescribeMetadataResponse
from penstock.threads import Threads
from storage.disk.dir_threads import DirThreads, NoThreadError
from storage.disk.file_system import FileSystem

NEWEST = -1
PAGE_BYTES_MAX = 1 << 20
"""Limit for one answer: far below the 4 MiB that gRPC takes where nothing else is set."""
KEPT_MS = 10_000
"""How long lines wait for the question for the next page; the caller may be gone."""


@dataclass(frozen=True, slots=True)
class OwnMetadata:
    """Where this node has its metadata. `applied` is the offset of its image; `kept_from` the end offset of its oldest
    snapshot, 0 if the log has everything."""

    node_id: int
    fs: FileSystem
    directory: str
    applied: Callable[[], int]
    kept_from: Callable[[], int]


@dataclass(frozen=True, slots=True)
class _Found:
    offset: int
    epoch: int
    records: int
    sha256: str
    size_bytes: int
    lines: bytes | None
    """None where only the digest was asked for."""


class DescribeMetadataApi:
    """Answers DescribeMetadata for one node, on the event loop, with a thread of its own."""

    def __init__(self, own: OwnMetadata, threads: Threads, fail: FailRequest) -> None:
        self._own, self._fail = own, fail
        self._threads = DirThreads(threads, "describe-metadata", 1)
        self._reading: Request | None = None
        self._found: _Found | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def handle(self, request: Request, body: DescribeMetadataRequest) -> None:
        if body.offset < NEWEST or body.position < 0 or body.max_bytes < 0:
            raise InvalidRequestError(
                f"offset {body.offset}, position {body.position} and max_bytes {body.max_bytes} must not be negative;"
                f" offset {NEWEST} is the newest"
            )
        if self._is_closed:
            raise NetworkError("this node is stopping; ask another one")
        offset = self._own.applied() if body.offset == NEWEST else body.offset
        found = self._found
        if found is not None and found.offset == offset and (found.lines is not None or not body.max_bytes):
            self._answer(request, body, found)
            return
        self._check_kept(offset)
        if self._reading is not None or (found is not None and found.lines is not None):
            raise ResourceExhaustedError(
                "this node is busy with the metadata for another caller; try again later, this takes seconds"
            )
        self._begin(request, body, offset)

    def _check_kept(self, offset: int) -> None:
        first, last = max(self._own.kept_from() - 1, 0), self._own.applied()
        if not first <= offset <= last:
            raise OffsetOutOfRangeError(
                f"node {self._own.node_id} has the metadata at the offsets {first} to {last}, not at {offset}",
                log_start_offset=first,
                log_end_offset=last,
            )

    def _begin(self, request: Request, body: DescribeMetadataRequest, offset: int) -> None:
        found: list[_Found] = []

        def read() -> None:
            found.append(_read(self._own, offset, with_lines=body.max_bytes > 0))

        def done(error: BaseException | None) -> None:
            self._reading = None
            try:
                if error is not None:
                    raise self._for_caller(error, offset)
                if not self._is_closed:
                    self._keep(found[0])
                self._answer(request, body, found[0])
            except Exception as failure:
                self._fail(request, failure)

        try:
            self._threads.run(read, done)
        except (NoThreadError, MemoryError) as error:
            raise ResourceExhaustedError(f"the metadata is not read now: {error}; try again later") from error
        self._reading = request

    def _for_caller(self, error: BaseException, offset: int) -> BaseException:
        """Turns the reader thread's error into the caller's. Unexpected errors are returned unchanged."""
        if isinstance(error, InsideDecisionError):
            return InvalidRequestError(str(error))
        if isinstance(error, MemoryError):
            return ResourceExhaustedError("this node has no memory for the metadata now; try again later")
        if not isinstance(error, OSError | PenstockError):
            return error
        try:
            self._check_kept(offset)
        except OffsetOutOfRangeError as gone:  # while it was read
            return gone
        return KafkaStorageError(
            f"the files of node {self._own.node_id} do not give the metadata at offset {offset}: {error};"
            " its log tells more, and so does `penstock log verify`"
        )

    def _answer(self, request: Request, body: DescribeMetadataRequest, found: _Found) -> None:
        page = b""
        if body.max_bytes and found.lines is not None:
            if body.position > found.size_bytes:
                raise PositionOutOfRangeError(
                    f"the metadata at offset {found.offset} has {found.size_bytes} bytes, none at {body.position}"
                )
            page = found.lines[body.position : body.position + min(body.max_bytes, PAGE_BYTES_MAX)]
            if body.position + len(page) == found.size_bytes:
                self._forget()
            elif found is self._found:
                self._keep(found)
        of_image = (found.offset, found.epoch, found.records, found.sha256, found.size_bytes)
        request.complete(DescribeMetadataResponse(self._own.node_id, *of_image, page))

    def _keep(self, found: _Found) -> None:
        """Keeps what was read for KEPT_MS from now on. A digest is kept, too: a caller that gave up waiting for it asks
        again."""
        self._forget()
        self._found = found
        self._timer = asyncio.get_running_loop().call_later(KEPT_MS / 1000, self._forget)

    def _forget(self) -> None:
        self._found = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Answers the request that waits. The thread ends after its present work, and the stop does not wait for it."""
        self._is_closed = True
        self._forget()
        if self._reading is not None:
            self._reading.fail(NetworkError("this node is stopping; ask another one"))
        self._threads.close(wait=False)

    def __repr__(self) -> str:
        return f"DescribeMetadataApi({self._reading!r}, {self._found.offset if self._found else 'nothing'} is kept)"


def _read(own: OwnMetadata, offset: int, *, with_lines: bool) -> _Found:
    """Reads the metadata at the offset, in a thread."""
    image = read_metadata(own.fs, own.directory, offset)
    hasher, lines, records, size_bytes = hashlib.sha256(), [], 0, 0
    for line in shown_lines(image):
        hasher.update(line)
        records, size_bytes = records + 1, size_bytes + len(line)
        if with_lines:
            lines.append(line)
    found = b"".join(lines) if with_lines else None
    return _Found(image.offset, image.epoch, records, hasher.hexdigest(), size_bytes, found)
