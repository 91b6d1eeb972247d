"""Processors over plain clients and over async ones: what a user starts, stops, and reads the counts of.

Not here: what a processor does (processing_core.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Unpack

from penstock.backoff import Backoff
from penstock.client.consumer.async_consumer import AsyncConsumer
from penstock.client.consumer.consumer import Consumer
from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.client.environment import ClientEnvironment, given_or_system
from penstock.client.faces import finished
from penstock.client.processing.clients import Clients, note_polls
from penstock.client.processing.output import Outputs
from penstock.client.processing.processing_core import ProcessingCore, StopEvent
from penstock.client.processing.processing_options import ProcessingOptions, processing_config
from penstock.client.processing.processing_statistics import ProcessingStatistics
from penstock.client.producer.async_producer import AsyncProducer
from penstock.client.producer.producer import Producer
from penstock.errors import ConfigError, HandlerError

if TYPE_CHECKING:
    from penstock.client.processing.processing_metrics import ProcessingCollector

Handler = Callable[[ConsumerRecord], Outputs]
AsyncHandler = Callable[[ConsumerRecord], Awaitable[Outputs] | Outputs]


class _Processor:
    """The calls that both kinds share, which never wait."""

    _core: ProcessingCore

    def stop(self) -> None:
        """The transaction under way is the last one."""
        self._core.stopped.set()

    @property
    def statistics(self) -> ProcessingStatistics:
        return self._core.counts

    def collector(self) -> ProcessingCollector:
        """The `statistics` for Prometheus: `prometheus_client.REGISTRY.register(processor.collector())`."""
        from penstock.client.processing.processing_metrics import ProcessingCollector

        core = self._core
        group, transactional_id = core.clients.names
        return ProcessingCollector(lambda: core.counts, group, transactional_id)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._core!r})"


class RecordProcessor(_Processor):
    """`process` as an object. `run` belongs to one thread; `stop` may be called in any, and in a signal handler."""

    def __init__(
        self,
        consumer: Consumer,
        producer: Producer,
        handler: Handler,
        *,
        stop: StopEvent | None = None,
        environment: ClientEnvironment | None = None,
        **options: Unpack[ProcessingOptions],
    ) -> None:
        """The arguments are those of `process`."""
        _check(consumer, producer)
        if is_coroutine_function(handler):
            raise HandlerError(
                "the handler is a coroutine function, which process does not take: use async_process with an"
                " AsyncConsumer and an AsyncProducer"
            )
        clients = Clients(consumer, producer, awaits=False)
        self._core = _core(clients, handler, stop, environment, options)

    def run(self) -> ProcessingStatistics:
        """Processes records until `stop`. ProcessingError where a handler has raised an error that ends it; ConfigError
        where the consumer has nothing to read; AuthorizationFailedError where a right is missing; FatalProducerError
        where another producer has the transactional id; other errors as `poll` and the transaction raise them.

        After any of them, and after Ctrl-C, `run` may be called again, or another processor may go on with the same
        consumer: it begins where this one's last transaction has ended.
        """
        return finished(self._core.run())


class AsyncRecordProcessor(_Processor):
    """`async_process` as an object, for the event loop of its clients."""

    def __init__(
        self,
        consumer: AsyncConsumer,
        producer: AsyncProducer,
        handler: AsyncHandler,
        *,
        stop: StopEvent | None = None,
        environment: ClientEnvironment | None = None,
        **options: Unpack[ProcessingOptions],
    ) -> None:
        """The arguments are those of `async_process`."""
        _check(consumer, producer, (AsyncConsumer, AsyncProducer))
        clients = Clients(consumer, producer, awaits=True)
        self._core = _core(clients, handler, stop, environment, options)

    async def run(self) -> ProcessingStatistics:
        """Does what `RecordProcessor.run` does; a task that is cancelled ends as by Ctrl-C."""
        return await self._core.run()


def is_coroutine_function(handler: Any) -> bool:
    """True for one in any of its forms: a function, a partial of one, an object whose call is one."""
    called = getattr(type(handler), "__call__", None)  # noqa: B004 (not asked for: taken)
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(called)


def _core(
    clients: Clients,
    handler: Any,
    stop: StopEvent | None,
    environment: ClientEnvironment | None,
    options: ProcessingOptions,
) -> ProcessingCore:
    if not callable(handler):
        raise HandlerError(f"the handler {handler!r:.200} cannot be called: give a function that takes a record")
    machine = given_or_system(environment)
    stopped = machine.threads.event() if stop is None else stop
    config = processing_config(options)
    backoff = Backoff(config.backoff_ms, config.backoff_max_ms, machine.random)
    return ProcessingCore(clients, handler, config, stopped, machine.clock, backoff)


def _check(consumer: Any, producer: Any, kinds: tuple[type[Any], type[Any]] = (Consumer, Producer)) -> None:
    """ConfigError where the two cannot give each record's effect once. A consumer that was polled before is marked."""
    wrong = []
    if not isinstance(consumer, kinds[0]) or not isinstance(producer, kinds[1]):
        named = f"{type(consumer).__name__} and {type(producer).__name__}"
        raise TypeError(
            f"process takes a Consumer, a Producer and a handler, and async_process an AsyncConsumer, an AsyncProducer"
            f" and a handler, not {named}"
        )
    settings, made = consumer._core.config, producer._core.config
    if settings.group_id is None:
        wrong.append("the consumer needs a group_id")
    elif settings.enable_auto_commit:
        wrong.append("the consumer needs enable_auto_commit=False: the transaction commits its positions")
    if settings.isolation_level == "read_uncommitted":
        wrong.append("the consumer needs isolation_level='read_committed'")
    if made.transactional_id is None:
        wrong.append("the producer needs a transactional_id, one for each process")
    if wrong:
        raise ConfigError("; ".join(wrong))
    note_polls(consumer)
