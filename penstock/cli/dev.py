"""`penstock dev`: a cluster of one to nine nodes on this machine, until Ctrl-C.

With `--secure`, or with data that was started so, it has TLS, users and ACLs, and tells how clients connect.
"""

from __future__ import annotations

import errno
import math
import os
import shlex
import signal
import threading
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.dev_console import dev_console
from penstock.cli.dev_ports import DEFAULT_PORT, PORT_MAX, KafkaPort, KafkaPorts, as_before, choose_kafka_ports
from penstock.cli.options import AsJson, parse_pairs
from penstock.cli.output import note, print_json, say
from penstock.cli.web_console import check_packages
from penstock.own_process.standard_streams import give_up_unwritten

if TYPE_CHECKING:
    from penstock.certs.secured import Secured
    from penstock.testing import Cluster, NodeFailedError

DEFAULT_DATA = Path("penstock-data")
NODES_MAX = 9
"""The most nodes: more of them on one machine show nothing new."""
SAID = "penstock: "
"""A command or a node that fails gives the reason in a line that begins with this."""
PORT_IN_USE = os.strerror(errno.EADDRINUSE).lower()
KAFKA_PORT_REMEDY = "; `penstock dev --kafka-port PORT` takes another, and 0 leaves it out"
LOOK_EVERY_S = 0.5
"""How often the nodes are checked for one that ended by itself."""
NodeKeys = Annotated[
    list[str] | None,
    typer.Option(
        "-c",
        "--config",
        metavar="KEY=VALUE",
        help="A key of the nodes' configuration, like auto.create.topics.enable=true, for this start: each start"
        " writes their files anew. May be repeated.",
    ),
]
Racks = Annotated[
    str,
    typer.Option(
        "--racks",
        metavar="RACK,…",
        help="The rack of each node, from the first again for more nodes; clients with a rack read from its replicas."
        " Without --nodes, a new cluster has a node in each.",
    ),
]

Host = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="A name or address of this machine: clients on other machines, or outside of a container, reach the"
        " brokers by it, and they listen on all addresses; give --secure, too, or whoever reaches them may do all.",
        show_default="127.0.0.1",
    ),
]
WithConsole = Annotated[
    bool, typer.Option("--console", help="Also serve the console, a window on the cluster in a browser.")
]
Secure = Annotated[
    bool,
    typer.Option(
        "--secure",
        help="TLS, users and ACLs. How clients connect is printed, and is kept in the data for later starts.",
    ),
]


def secured_as_before(data: Path, secure: bool) -> bool:
    """Secured if that is asked for, or if the data was started so. ConfigError for data that was not."""
    from penstock.errors import ConfigError
    from penstock.testing.layout import is_stored_secure

    stored = is_stored_secure(data)
    if secure and stored is False:
        raise ConfigError(
            f"--secure: {data} holds a cluster that is not secured; start another with --data DIR, or follow"
            " docs/security.md"
        )
    return secure or bool(stored)


def how_to_connect(secured: Secured | None) -> Iterator[str]:
    """The lines that tell the user how to connect to a ready cluster."""
    if secured is not None:
        yield f"secured; commands and programs are the user admin after:  . {shlex.quote(str(secured.client_env))}"
        yield f"and Kafka's tools with:  --command-config {shlex.quote(str(secured.kafka_properties))}"


def dev(
    nodes: Annotated[
        int | None,
        typer.Option(
            min=1, max=NODES_MAX, help=f"1 to {NODES_MAX}; 3 show replication and failover.", show_default="1"
        ),
    ] = None,
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="The nodes' data; made on the first start, and kept.")
    ] = DEFAULT_DATA,
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=PORT_MAX,
            help="The first broker's port; the nodes' other ports are 100 to 300 above.",
            show_default=str(DEFAULT_PORT),
        ),
    ] = None,
    kafka_port: KafkaPort = None,
    host: Host = None,
    secure: Secure = False,
    config: NodeKeys = None,
    racks: Racks = "",
    console: WithConsole = False,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print the nodes' configuration files, and start nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a cluster on this machine and print its bootstrap address when it is ready. Ctrl-C stops it cleanly.

    Kafka's clients and tools connect at ports of their own, from 9092 on, which are printed besides.

    A second start on the same data goes on with the nodes and ports of the first; with more --nodes, the cluster grows
    by brokers. When a node dies, the others go on, and the command that starts it again is printed.
    """
    from penstock.testing import Cluster

    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a pipe whose reader ends must not end the nodes
    nodes, port = as_before(data, nodes, port, usual_nodes=len(parse_racks(racks)) or 1)
    secure = secured_as_before(data, secure)
    host = checked_host(host)
    configs = node_configs(nodes, node_keys(config or ()), parse_racks(racks))
    if console:
        check_packages()
    choose = partial(choose_kafka_ports, data, nodes, port, host, kafka_port)

    made = partial(Cluster, nodes, None, data, port=port, host=host, secure=secure, node_configs=configs, defaults={})

    def with_ports(kafka: KafkaPorts) -> Cluster:
        return made(kafka_ports=kafka.chosen)

    if print_config:
        _print_configs(with_ports(choose()).planned_configs(), as_json)
        return
    cluster, kafka = _opened(with_ports, choose)
    with closing(cluster), ExitStack() as more:
        stop = _asked_to_stop()
        with _nobody_must_listen():
            url = more.enter_context(dev_console(cluster)) if console else ""
            _say_ready(cluster, data, kafka, url, as_json)
        ended = _watch(cluster, stop)
        note("stopping")
        more.close()
        codes = cluster.stop_all()
        require_stopped({index: code for index, code in enumerate(codes) if index not in ended}, cluster.log_path)


def _asked_to_stop() -> threading.Event:
    """Set by Ctrl-C and SIGTERM. A handler, not a mask: as process 1 of a container this one gets no signal that has
    none."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def node_keys(pairs: Iterable[str]) -> dict[str, object]:
    """The keys of `-c key=value …` with their values as a configuration file has them. A value that TOML does not know,
    or of a kind that no key has, is text. The node refuses a value that it cannot use."""
    return {key: _toml_value(text) for key, text in parse_pairs(pairs).items()}


def parse_racks(text: str) -> tuple[str, ...]:
    """The racks of `--racks`; ConfigError for one without a name, or more than there may be nodes."""
    from penstock.errors import ConfigError

    racks = tuple(rack.strip() for rack in text.split(",")) if text else ()
    if not all(racks):
        raise ConfigError(f"--racks {text}: a rack has no name; give them as a,b,c")
    if len(racks) > NODES_MAX:
        raise ConfigError(f"--racks names {len(racks)} racks; there are at most {NODES_MAX} nodes")
    return racks


def node_configs(nodes: int, keys: Mapping[str, object], racks: Sequence[str]) -> list[dict[str, object]]:
    """The keys of each node. With racks its replicas serve the consumers of its rack; a key that is given wins."""
    if not racks:
        return [dict(keys) for _ in range(nodes)]
    served = {"replica.selector.class": "rack-aware"}
    return [{**served, "broker.rack": racks[index % len(racks)], **keys} for index in range(nodes)]


def _toml_value(text: str) -> object:
    try:
        value: object = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    items = value if isinstance(value, list) else [value]
    return value if all(isinstance(item, str) or _is_finite(item) for item in items) else text


def _is_finite(item: object) -> bool:
    return isinstance(item, bool | int | float) and math.isfinite(item)


def _opened(
    with_ports: Callable[[KafkaPorts], Cluster], choose: Callable[[], KafkaPorts]
) -> tuple[Cluster, KafkaPorts]:
    """The cluster when it is ready; PenstockError why it does not start. Another process may take a port for Kafka's
    clients between its choice and its use: then another is chosen, unless it was asked for by name."""
    from penstock.errors import PenstockError
    from penstock.testing import NodeFailedError

    while True:
        kafka = choose()
        try:
            return with_ports(kafka).open(), kafka
        except NodeFailedError as error:
            reason = why_not_started(error)
            if not (KAFKA_PORT_REMEDY in reason and choose() != kafka):
                raise PenstockError(reason) from None


def _say_ready(cluster: Cluster, data: Path, kafka: KafkaPorts, console: str, as_json: bool) -> None:
    nodes, metrics = len(cluster), [cluster.metrics_url(index) for index in range(len(cluster))]
    if as_json:
        addresses = {"bootstrap": cluster.bootstrap, "kafka": cluster.kafka_bootstrap}
        shown = {"console": console} if console else {}
        print_json({**addresses, "data": str(data), "metrics": metrics, **shown, **cluster.client_options})
        return
    note(f"{nodes} node{'s' if nodes > 1 else ''} ready, data in {data}; Ctrl-C stops")
    note(f"metrics: {' '.join(metrics)}")
    if console:
        note(f"console: {console}")
    for line in (*kafka.lines(cluster.kafka_bootstrap), *how_to_connect(cluster.secured)):
        note(line)
    say(cluster.bootstrap, flush=True)


def _print_configs(planned: list[tuple[Path, str]], as_json: bool) -> None:
    if as_json:
        print_json({str(path): text for path, text in planned})
        return
    for path, text in planned:
        for line in (f"# {path}", *text.splitlines()):
            say(line)


def _watch(cluster: Cluster, stop: threading.Event) -> set[int]:
    """Watches until `stop` is set; says which nodes have ended by themselves, and returns them."""
    nodes, ended = len(cluster), set[int]()
    while not stop.wait(LOOK_EVERY_S):
        for index in sorted(set(range(nodes)) - ended):
            if not cluster.is_running(index):
                ended.add(index)
                what = f"node {index} {how_ended(cluster.exit_code(index))}"
                note_ended(what, nodes - len(ended), cluster.log_path(index), cluster.config_path(index))
    return ended


@contextmanager
def _nobody_must_listen() -> Iterator[None]:
    """A cluster goes on where its words meet a closed stream, such as a pipe whose reader has ended."""
    with suppress(OSError):
        yield
    give_up_unwritten()


def checked_host(host: str | None) -> str | None:
    """ConfigError for what clients could not connect to."""
    from penstock.errors import ConfigError
    from penstock.types import Endpoint

    if host is not None and (Endpoint(host, 0).is_every_address or any(letter in host for letter in ' ,/:"')):
        raise ConfigError(
            f"--host {host}: must be one name or IPv4 address under which clients reach this machine; the brokers then"
            " listen on all addresses"
        )
    return host


def why_not_started(error: NodeFailedError) -> str:
    """The last line of the node's log if that gives the reason, otherwise what happened and where the log is."""
    last = error.log_lines[-1] if error.log_lines else ""
    if last.startswith(SAID):
        reason = last.removeprefix(SAID)
        if PORT_IN_USE not in reason:
            return reason
        return reason + (
            KAFKA_PORT_REMEDY if "KAFKA://" in reason else "; `penstock dev --port PORT` takes other ports"
        )
    return f"{error.what}; see {error.log_path}"


def how_ended(code: int | None) -> str:
    """The end of a node's process in words; a negative code is the signal that ended it."""
    if code is None or code >= 0:
        return f"ended by itself with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"was ended by signal {-code}"


def note_ended(what: str, left: int, log: Path, config: Path) -> None:
    """Say that a node ended, and how to start it again; PenstockError when none of this command's nodes is `left`.
    Nodes that a user has started again do not count."""
    from penstock.errors import PenstockError

    again = f"see {log}. To start it again, in another terminal: penstock node start --config {config}"
    if left == 0:
        raise PenstockError(f"{what}, and none that this command started is left; {again}")
    note(f"{what}; {left} that this command started still run{'s' if left == 1 else ''}; {again}")


def require_stopped(codes: Mapping[int, int | None], log_path: Callable[[int], Path]) -> None:
    """PenstockError for the first node that failed while it was stopped; `codes` are the exit codes by node."""
    from penstock.errors import PenstockError

    for index, code in codes.items():
        if code != 0:
            raise PenstockError(
                f"node {index} ended with exit code {code} while it was stopped; see {log_path(index)}. "
                "The next start recovers its logs"
            )
