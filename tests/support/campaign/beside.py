"""Work beside the story of a run, in threads that end with it, and whose errors are not lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

Work = Callable[[threading.Event], object]
"""It goes on until the event is set."""


@contextmanager
def beside(*works: Work) -> Iterator[threading.Event]:
    """Each work runs within, and is told to end after it; an error of one is raised here, then."""
    is_over = threading.Event()
    with ThreadPoolExecutor(len(works), "beside") as executor:
        running = [executor.submit(work, is_over) for work in works]
        try:
            yield is_over
        finally:
            is_over.set()
        for one in running:
            one.result()


def every(seconds: float, look: Callable[[], object]) -> Work:
    """A work that looks again and again."""

    def work(is_over: threading.Event) -> None:
        while not is_over.wait(seconds):
            look()

    return work
