"""Methods of the clients' faces, each made from the one place where its signature and its docstring stand.

A face is what a user imports: `Admin`, `AsyncConsumer`. Its calls are a class of their own, which knows neither threads
nor which loop it is on; a face names those it has:

    class Admin:
        create_topic = blocking(AsyncAdmin.create_topic)

Type checkers, `help()` and editors see the signature of the call without its `async`. A wrong argument is reported with
the face's own name, as for any method. Not here: how a face waits (`_run`) and binds to a loop (`_bind`).
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from penstock.client.options.foreign_words import with_method_hints
from penstock.client.options.option_text import with_option_help
from penstock.errors import InvariantViolation

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
C_co = TypeVar("C_co", covariant=True)
S = TypeVar("S")
T = TypeVar("T")
W = TypeVar("W")
F = TypeVar("F", bound=Callable[..., Any])


class Face(Protocol[C_co]):
    """A face with the calls that its methods are made from."""

    @property
    def _calls(self) -> C_co: ...


class PlainFace(Face[C_co], Protocol[C_co]):
    """A face that blocks."""

    def _run(self, call: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **more: P.kwargs) -> R:
        """The result of a call on the background loop."""
        ...


class AsyncFace(Face[C_co], Protocol[C_co]):
    """A face of one event loop."""

    def _bind(self) -> None:
        """Binds the client to the running loop; RuntimeError where it belongs to another."""
        ...


def blocking(
    call: Callable[Concatenate[C, P], Coroutine[Any, Any, R]], calls: str = "_calls"
) -> Callable[Concatenate[PlainFace[Any], P], R]:
    """The call as a method that waits for its result; `calls` is the attribute of the face that has the call."""
    own = _copy(call)

    @functools.wraps(own)
    def blocked(self: PlainFace[Any], /, *args: P.args, **more: P.kwargs) -> R:
        return self._run(own, getattr(self, calls), *args, **more)

    return blocked


def blocking_made(
    call: Callable[Concatenate[C, P], Coroutine[Any, Any, T | None]], made: Callable[[S, T], W]
) -> Callable[Concatenate[S, P], W | None]:
    """`blocking`, for a call whose result gets a face of its own, which `made` makes with this one."""
    own = _returning(_copy(call), made)

    @functools.wraps(own)
    def blocked(self: S, /, *args: P.args, **more: P.kwargs) -> W | None:
        this: Any = self
        found: T | None = this._run(own, this._calls, *args, **more)
        return None if found is None else made(self, found)

    return blocked


def awaited_made(
    call: Callable[Concatenate[C, P], Coroutine[Any, Any, T | None]], made: Callable[[S, T], W]
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, W | None]]:
    """`awaited`, for a call whose result gets a face of its own, which `made` makes with this one."""
    own = _returning(_copy(call), made)

    @functools.wraps(own)
    async def passed_on(self: S, /, *args: P.args, **more: P.kwargs) -> W | None:
        this: Any = self
        this._bind()
        found: T | None = await own(this._calls, *args, **more)
        return None if found is None else made(self, found)

    return passed_on


def in_callers_thread(
    call: Callable[Concatenate[C, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Face[C], P], R]:
    """The call as a method that runs in the caller's thread; for calls that wait there by themselves, and never
    suspend."""
    own = _copy(call)

    @functools.wraps(own)
    def waited(self: Face[C], /, *args: P.args, **more: P.kwargs) -> R:
        return finished(own(self._calls, *args, **more))

    return waited


def awaited(
    call: Callable[Concatenate[C, P], Coroutine[Any, Any, R]], calls: str = "_calls"
) -> Callable[Concatenate[AsyncFace[Any], P], Coroutine[Any, Any, R]]:
    """The call as a coroutine on the loop of the caller; `calls` as for `blocking`."""
    own = _copy(call)

    @functools.wraps(own)
    async def passed_on(self: AsyncFace[Any], /, *args: P.args, **more: P.kwargs) -> R:
        self._bind()
        return await own(getattr(self, calls), *args, **more)

    return passed_on


def blocking_awaited(
    call: Callable[Concatenate[C, P], Coroutine[Any, Any, R]], calls: str = "_calls"
) -> Callable[Concatenate[PlainFace[AsyncFace[Any]], P], R]:
    """`blocking`, for a face whose calls are an async face, which has this one `awaited`."""
    own = _copy(call)

    async def passed_on(face: AsyncFace[Any], /, *args: P.args, **more: P.kwargs) -> R:
        face._bind()
        return await own(getattr(face, calls), *args, **more)

    @functools.wraps(own)
    def blocked(self: PlainFace[AsyncFace[Any]], /, *args: P.args, **more: P.kwargs) -> R:
        return self._run(passed_on, self._calls, *args, **more)

    return blocked


def at_once(call: Callable[Concatenate[C, P], R], calls: str = "_calls") -> Callable[Concatenate[Face[Any], P], R]:
    """The call as a method that waits for nothing and runs in the caller's thread; `calls` as for `blocking`."""
    own = _copy(call)

    @functools.wraps(own)
    def passed_on(self: Face[Any], /, *args: P.args, **more: P.kwargs) -> R:
        return own(getattr(self, calls), *args, **more)

    return passed_on


class Within(Protocol):
    """The face of a part of a producer's work, which sends by the producer: a transaction, or a writer."""

    @property
    def _producer(self) -> Any: ...

    @property
    def _must_be_open(self) -> Callable[[], None]:
        """Raises once the part is over, or before it begins."""
        ...


def within(call: Callable[Concatenate[Within, P], R], doc: str | None) -> Callable[Concatenate[Within, P], R]:
    """A method of its own, with this docstring, for a plain face of which several have the same."""
    own: Any = _copy(call)
    own.__doc__ = doc
    own.__annotations__ = {name: hint for name, hint in own.__annotations__.items() if name != "self"}
    made: Callable[Concatenate[Within, P], R] = own
    return made


def awaited_within(
    call: Callable[Concatenate[Within, P], R], doc: str | None
) -> Callable[Concatenate[Within, P], Coroutine[Any, Any, R]]:
    """`within` for an async face, whose producer has a call of the same name and arguments that is awaited."""
    own, name = within(call, doc), call.__name__

    @functools.wraps(own)
    async def passed_on(self: Within, /, *args: P.args, **more: P.kwargs) -> R:
        self._must_be_open()
        sent: R = await getattr(self._producer, name)(*args, **more)
        return sent

    return passed_on


def documented_by(other: Callable[..., Any]) -> Callable[[F], F]:
    """A decorator: the method does for one face what `other` does for the other, and has its docstring."""

    def documented(method: F) -> F:
        method.__doc__ = other.__doc__
        return method

    return documented


def face(config: Any, elsewhere: Mapping[str, str]) -> Callable[[type[C]], type[C]]:
    """A class decorator: what every face has beside its methods.

    `help()` shows the options after what the class says of itself, and a method that only other clients have is refused
    with what to write. Methods that are made from calls get the names that they have here; their module stays that of
    the call, where the names in annotations are looked up.
    """

    def made(client: type[C]) -> type[C]:
        return with_method_hints(elsewhere)(with_option_help(config)(named(client)))

    return made


def named(made: type[C]) -> type[C]:
    """A class decorator for what faces hand out, which has neither options nor words of other clients."""
    for name, method in vars(made).items():
        for function in (method, getattr(method, "__wrapped__", None)):
            if isinstance(function, types.FunctionType):
                function.__name__, function.__qualname__ = name, f"{made.__qualname__}.{name}"
    return made


def finished(work: Coroutine[Any, Any, R]) -> R:
    """The result of a coroutine that waits in the caller's thread and never suspends."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: R = ended.value
        return result
    finally:
        work.close()
    raise InvariantViolation("a call of a plain client has waited for an event loop in the caller's thread")


def _returning(call: F, made: Any) -> F:
    """The call, annotated with what `made` makes of its result: `help()` shows it."""
    call.__annotations__ = {**call.__annotations__, "return": made | None}
    return call


def _copy(call: F) -> F:
    """The function as an object of its own: Python names a function in the errors about its arguments."""
    given: Any = call
    made: Any = types.FunctionType(
        given.__code__, given.__globals__, given.__name__, given.__defaults__, given.__closure__
    )
    made.__kwdefaults__ = given.__kwdefaults__
    functools.update_wrapper(made, given)
    del made.__wrapped__
    own: F = made
    return own
