"""Clients whose process forks: gunicorn --preload, Celery, multiprocessing with "fork".

A client belongs to the process that made it: its thread and its event loop do not come along, and its sockets are
shared with the parent. In a child, every client of the parent is made inert, with the promises of its sends. Each
method raises ForkedClientError at once; `close`, and the end of a `with`, do nothing, so that a child that ends leaves
what the parent has. Nothing of an inherited client is ever freed in the child: destroying a gRPC channel there shuts
down the parent's socket, takes it out of the epoll set that both share, and waits for locks of threads that did not
come along, which ends the process. This includes objects that a client closed before the fork has left to the garbage
collector: a child of a process that used gRPC collects nothing that was there at the fork (`gc.freeze`).

A child may make clients of its own. Where gRPC's library was used before the fork, in this process or an ancestor, they
work without it (`must_avoid_grpc`, wire/http2_channel.py): its threads are gone and its locks may be held.

Not here: the thread of plain clients (background.py, which starts its own in a child), and what a caller should do
(docs/forking.md).
"""

from __future__ import annotations

import asyncio
import contextlib
import copyreg
import ctypes
import gc
import inspect
import os
import sys
import warnings
import weakref
from pathlib import Path
from typing import Any, NoReturn

from penstock.errors import ForkedClientError

FORK_SUPPORT = "GRPC_ENABLE_FORK_SUPPORT"
HANDLERS_WARNING = (
    f"{FORK_SUPPORT} was not 0 when another package imported gRPC: its fork handlers end some forked children with"
    " SIGSEGV while a client is busy. Set it to 0 in the environment, or import penstock's clients first"
)
THREADS = Path("/proc/self/task")
GRPC_THREADS = ("event_engine", "grpc_", "lifeguard")
"""How gRPC's library calls its threads: the kernel's names, of at most 15 bytes."""
KEPT = frozenset({"__init__", "__new__", "__del__", "__class_getitem__", "__init_subclass__", "__hash__", "__eq__"})
WITHOUT_EFFECT = frozenset({"close", "__exit__", "__aexit__"})

_clients: weakref.WeakKeyDictionary[Any, tuple[str, ...]] = weakref.WeakKeyDictionary()
_generation = 0
_is_grpc_used = False
_has_fork_handlers = "grpc" in sys.modules and FORK_SUPPORT not in os.environ
_is_grpc_spoiled = False
_kept_for_ever: list[object] = []


def belongs_here(client: object) -> None:
    """Registers a client at the end of its constructor: a child process takes from it the attributes that it has now.
    It cannot be pickled."""
    _clients[client] = tuple(vars(client))
    copyreg.pickle(type(client), _refuse_pickle)


def _refuse_pickle(client: object) -> NoReturn:
    kind = type(client).__name__
    raise TypeError(
        f"cannot pickle or copy a {kind}: a client belongs to the process that made it; pass its bootstrap address and"
        " options on, and make one in each process"
    )


def generation() -> int:
    """Another number in a child than in its parent, and so on down."""
    return _generation


def is_grpc_used() -> bool:
    """True if a channel of gRPC's library was made in this process."""
    return _is_grpc_used


def grpc_is_used_now() -> None:
    """Notes that a child of this process must do without gRPC's library from now on."""
    global _is_grpc_used
    _is_grpc_used = True


def must_avoid_grpc() -> bool:
    """True if gRPC's library came here by a fork from a process that used it, or the user wants gRPC's own support of
    forks, whose handlers end children with SIGSEGV while a channel is busy."""
    return _is_grpc_spoiled or os.environ.get(FORK_SUPPORT, "0").lower() in ("1", "true", "yes", "on")


def refuse_promise(made_in: int) -> None:
    """ForkedClientError if a promise was made before a fork: nobody here will ever keep it."""
    if made_in != _generation:
        raise ForkedClientError(
            f"the record was sent before a fork, and this process ({os.getpid()}) is the child: its outcome is told in"
            " the process that sent it"
        )


def keep_for_ever(thing: object) -> None:
    """Keeps an inherited object until the process is gone: the interpreter's end frees what modules have."""
    _kept_for_ever.append(thing)
    with contextlib.suppress(AttributeError):  # another interpreter than CPython, which has no such calls
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


# -- in a child --------------------------------------------------------------------------------------------------------


class _Inherited:
    """Stands where a client had its parts, for callers that have one of its methods in a variable."""

    __slots__ = ("_text",)
    alive = False
    """False: a generator inherited from the parent, when closed here, finds that its background has ended."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __getattr__(self, name: str) -> NoReturn:
        raise ForkedClientError(self._text)

    def __repr__(self) -> str:
        return "_Inherited()"


def _inert_class(client: type[Any]) -> type[Any]:
    """The class of a client in a child: the same methods, and each refuses."""

    def refuse(self: Any, *args: Any, **options: Any) -> NoReturn:
        raise ForkedClientError(self._forked)

    async def refuse_async(self: Any, *args: Any, **options: Any) -> NoReturn:
        raise ForkedClientError(self._forked)

    def ignore(self: Any, *args: Any, **options: Any) -> None:
        """Nothing to close: it is the parent's."""

    async def ignore_async(self: Any, *args: Any, **options: Any) -> None:
        """Nothing to close: it is the parent's."""

    def described(self: Any) -> str:
        return f"{client.__name__}(inherited by a fork)"

    methods: dict[str, Any] = {"__repr__": described, "__module__": client.__module__, "__slots__": ()}
    for base in client.__mro__[:-1]:
        for name, member in vars(base).items():
            if inspect.isfunction(member) and name not in KEPT and name not in methods:
                is_async = inspect.iscoroutinefunction(member)
                if name in WITHOUT_EFFECT:
                    methods[name] = ignore_async if is_async else ignore
                else:
                    methods[name] = refuse_async if is_async else refuse
    return type(client.__name__, (client,), methods)


def _make_inert(client: Any, names: tuple[str, ...], parent: int) -> None:
    kind = type(client).__name__
    text = (
        f"this {kind} was made in process {parent}, and this process ({os.getpid()}) is its forked child: a client"
        f" belongs to the process that made it. Make a new {kind} in the child"
    )
    attributes = vars(client)
    keep_for_ever({name: attributes.get(name) for name in names})
    for name in names:
        is_loop = isinstance(attributes.get(name), asyncio.AbstractEventLoop)
        attributes[name] = None if is_loop else _Inherited(text)
    attributes["_forked"] = text
    with contextlib.suppress(TypeError):  # a subclass whose objects cannot change their class: its parts refuse
        client.__class__ = _inert_class(type(client))


def _uses_grpc() -> bool:
    """True if this process has gRPC's threads: another library than this one may have used it."""
    if _is_grpc_used or _is_grpc_spoiled or "grpc" not in sys.modules:
        return _is_grpc_used
    with contextlib.suppress(OSError):  # no such directory: not Linux
        for thread in THREADS.iterdir():
            with contextlib.suppress(OSError):  # the thread has ended meanwhile
                if (thread / "comm").read_text().startswith(GRPC_THREADS):
                    return True
    return False


def _before() -> None:
    global _parent, _has_fork_handlers
    _parent = (os.getpid(), _uses_grpc())
    if _has_fork_handlers and _is_grpc_used:
        _has_fork_handlers = False
        warnings.warn(HANDLERS_WARNING, RuntimeWarning, stacklevel=2)


def _in_child() -> None:
    global _generation, _is_grpc_used, _is_grpc_spoiled
    parent, is_grpc_used = _parent
    _generation += 1
    _is_grpc_spoiled = _is_grpc_spoiled or is_grpc_used
    _is_grpc_used = False
    if _is_grpc_spoiled:
        with contextlib.suppress(AttributeError):  # another interpreter than CPython, which has no such call
            gc.freeze()
    for client, names in tuple(_clients.items()):
        _make_inert(client, names, parent)
    _clients.clear()


_parent = (os.getpid(), False)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)
