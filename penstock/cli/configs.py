"""`penstock configs describe|alter`: of a topic, of one broker, or of all brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.edge.numbers import INT32_MAX
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, parse_pairs
from penstock.cli.output import print_json, print_table, say
from penstock.cli.patience.watch import patient_admin
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.client.admin.admin_types import ConfigEntry

app = typer.Typer(help="Describe and change the configuration of topics and of running brokers.", no_args_is_help=True)

Topic = Annotated[str | None, typer.Argument(metavar="TOPIC", help="The topic.")]
Broker = Annotated[
    int | None, typer.Option("--broker", metavar="ID", min=0, max=INT32_MAX, help="Instead of a topic: this broker.")
]
BrokerDefault = Annotated[bool, typer.Option("--broker-default", help="Instead of a topic: all brokers.")]
Pairs = list[str] | None


@dataclass(frozen=True, slots=True)
class _Target:
    """The resource that is described or changed: a topic, a broker, or with neither all brokers."""

    topic: str | None
    broker: int | None

    @staticmethod
    def of(topic: str | None, broker: int | None, broker_default: bool) -> _Target:
        if (topic is not None) + (broker is not None) + broker_default != 1:
            raise ConfigError("give one of TOPIC, --broker ID and --broker-default")
        return _Target(topic, broker)

    def __str__(self) -> str:
        return self.topic or ("all brokers" if self.broker is None else f"broker {self.broker}")

    def as_json(self) -> dict[str, Any]:
        """`"broker": null` is all brokers."""
        return {"broker": self.broker} if self.topic is None else {"topic": self.topic}


@app.command()
def describe(
    topic: Topic = None,
    broker: Broker = None,
    broker_default: BrokerDefault = False,
    everything: Annotated[bool, typer.Option("--all", help="Also keys that it does not set itself.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Show the keys that a topic sets, or with --all every key, its value and the source of the value.

    Of a broker: the keys that it has from its file or that were changed while it ran. A key that is read-only changes
    in the file, by a restart. Of all brokers: what `alter --broker-default` has set.
    """
    target = _Target.of(topic, broker, broker_default)
    with patient_admin(bootstrap) as admin:
        if target.topic is not None:
            entries = admin.describe_topic_config(target.topic)
            _print(entries, as_json, lambda entry: everything or entry.source == "DYNAMIC_TOPIC_CONFIG")
        else:
            entries = admin.describe_broker_config(target.broker)
            _print(entries, as_json, lambda entry: everything or not entry.is_default, of_broker=True)


@app.command("describe-broker", hidden=True)
def describe_broker(
    node_id: Annotated[int, typer.Argument(metavar="NODE_ID", min=0, max=INT32_MAX, help="The broker's node.id.")],
    everything: Annotated[bool, typer.Option("--all", help="Also the defaults.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """The same as `describe --broker NODE_ID`, by its name of before."""
    describe(broker=node_id, everything=everything, bootstrap=bootstrap, as_json=as_json)


@app.command()
def alter(
    topic: Topic = None,
    broker: Broker = None,
    broker_default: BrokerDefault = False,
    to_set: Annotated[Pairs, typer.Option("--set", metavar="KEY=VALUE", help="Set a key.")] = None,
    to_unset: Annotated[
        Pairs, typer.Option("--unset", "--delete", metavar="KEY", help="Return a key to what it is without this.")
    ] = None,
    to_append: Annotated[Pairs, typer.Option("--append", metavar="KEY=ITEM", help="Add an item to a list.")] = None,
    to_subtract: Annotated[
        Pairs, typer.Option("--subtract", metavar="KEY=ITEM", help="Remove an item from a list.")
    ] = None,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Check; change nothing.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Change keys of a topic, of a broker that runs, or of all brokers: all of the given changes or none.

    Other keys stay as they are. A broker's own value wins over that of all brokers, and that over the broker's file;
    docs/configuration.md says which keys of a broker can change while it runs.
    """
    target = _Target.of(topic, broker, broker_default)
    pairs, unset = parse_pairs(to_set or [], "--set"), to_unset or []
    lists = {
        "append": parse_pairs(to_append or [], "--append"),
        "subtract": parse_pairs(to_subtract or [], "--subtract"),
    }
    named = [*pairs, *unset, *lists["append"], *lists["subtract"]]
    _check_named(named, unset)
    values: dict[str, str | None] = {**pairs, **dict.fromkeys(unset)}
    with patient_admin(bootstrap) as admin:
        if target.topic is not None:
            admin.alter_topic_config(target.topic, values, **lists, validate_only=validate_only)
        else:
            admin.alter_broker_config(target.broker, values, **lists, validate_only=validate_only)
    if as_json:
        print_json({**target.as_json(), "keys": sorted(named), "altered": not validate_only})
    else:
        say(f"{'would alter' if validate_only else 'altered'} {target}: {', '.join(sorted(named))}")


def _check_named(named: list[str], unset: list[str]) -> None:
    if not named:
        raise ConfigError("nothing to change; give --set KEY=VALUE, --unset KEY, --append or --subtract KEY=ITEM")
    for key in unset:
        if "=" in key or not key:
            raise ConfigError(f"--unset {key}: must be a key alone, like retention.ms")
    twice = sorted({key for key in named if named.count(key) > 1})
    if twice:
        raise ConfigError(f"{', '.join(twice)}: named more than once; change a key in one way at a time")


def _print(
    entries: Mapping[str, ConfigEntry],
    as_json: bool,
    wanted: Callable[[ConfigEntry], bool],
    *,
    of_broker: bool = False,
) -> None:
    shown = {name: entry for name, entry in sorted(entries.items()) if wanted(entry)}
    if as_json:
        print_json({name: _json(entry) for name, entry in shown.items()})
    elif of_broker:
        rows = [(e.name, e.value, e.source, "yes" if e.is_read_only else "no") for e in shown.values()]
        print_table(["key", "value", "source", "read-only"], rows)
    else:
        print_table(["key", "value", "source"], [(e.name, e.value, e.source) for e in shown.values()])


def _json(entry: ConfigEntry) -> dict[str, Any]:
    return {
        "value": entry.value,
        "source": entry.source,
        "is_default": entry.is_default,
        "is_read_only": entry.is_read_only,
        "type": entry.type,
        "documentation": entry.documentation,
    }
