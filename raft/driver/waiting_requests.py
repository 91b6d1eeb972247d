"""The requests of other nodes that this node has taken and not yet answered, by the number the core knows them by.

The driver steps the core with a request under its number; what the core decides comes back under it, perhaps much
later (a fetch waits for news). No decision is here.
"""

from __future__ import annotations

import asyncio

from penstock.errors import NetworkError, ResourceExhaustedError
from raft.messages import Response

WAITING_MAX = 2_000
"""One parked fetch a node, and room for what comes in during an fsync."""


class WaitingRequests:
    """Keeps at most WAITING_MAX requests at a time; each is answered, abandoned by its caller, or failed at the end."""

    def __init__(self) -> None:
        self._answers: dict[int, asyncio.Future[Response]] = {}
        self._next_id = 1

    def __repr__(self) -> str:
        return f"WaitingRequests({len(self._answers)})"

    def __len__(self) -> int:
        return len(self._answers)

    def __contains__(self, request_id: int) -> bool:
        return request_id in self._answers

    def add(self) -> tuple[int, asyncio.Future[Response]]:
        """A number and the future of the answer; ResourceExhaustedError when too many wait already."""
        if len(self._answers) >= WAITING_MAX:
            raise ResourceExhaustedError(f"{len(self._answers)} quorum requests wait already")
        request_id = self._next_id
        self._next_id += 1
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._answers[request_id] = answer
        return request_id, answer

    def abandon(self, request_id: int) -> bool:
        """The caller is gone; returns whether the request was still without an answer."""
        return self._answers.pop(request_id, None) is not None

    def resolve(self, request_id: int, response: Response) -> None:
        """Answers the request, unless its caller is gone."""
        answer = self._answers.pop(request_id, None)
        if answer is not None and not answer.done():
            answer.set_result(response)

    def fail_all(self, error: NetworkError) -> None:
        """Ends every request that waits: this node takes no further part."""
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(error)
        self._answers.clear()
