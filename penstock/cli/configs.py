"""`penstock configs describe|alter`: of a topic, of one or all brokers, or of a subscription to client metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.edge.several import only_or_all, telling_what_was_done
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, complete_topic, parse_pairs
from penstock.cli.output import print_json, print_table, say
from penstock.cli.patience.watch import patient_admin
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.written.numbers import INT32_MAX

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin
    from penstock.client.admin.admin_types import ConfigEntry

app = typer.Typer(
    help="Describe and change the configuration of topics, of running brokers, and of what Kafka's clients push.",
    no_args_is_help=True,
)

Topics = Annotated[
    list[str] | None, typer.Argument(metavar="[TOPIC]...", help="The topics.", autocompletion=complete_topic)
]
Broker = Annotated[
    int | None, typer.Option("--broker", metavar="ID", min=0, max=INT32_MAX, help="Instead of a topic: this broker.")
]
ClientMetrics = Annotated[
    str | None,
    typer.Option(
        "--client-metrics",
        metavar="NAME",
        help="Instead of a topic: this subscription to the metrics of Kafka's clients.",
    ),
]
BrokerDefault = Annotated[bool, typer.Option("--broker-default", help="Instead of a topic: all brokers.")]
Pairs = list[str] | None


@dataclass(frozen=True, slots=True)
class _Target:
    """The resource that is described or changed: a topic, a broker, a subscription, or all brokers with none."""

    topic: str | None
    broker: int | None
    client_metrics: str | None = None

    @staticmethod
    def of(
        topics: Sequence[str] | None, broker: int | None, broker_default: bool, client_metrics: str | None
    ) -> list[_Target]:
        """The targets that the options name: several topics, or one of the others."""
        if bool(topics) + (broker is not None) + broker_default + (client_metrics is not None) != 1:
            raise ConfigError("give one of TOPIC, --broker ID, --broker-default and --client-metrics NAME")
        if client_metrics is not None:
            return [_Target(None, None, client_metrics)]
        return [_Target(topic, None) for topic in dict.fromkeys(topics or ())] or [_Target(None, broker)]

    def __str__(self) -> str:
        if self.client_metrics is not None:
            return f"client metrics {self.client_metrics}"
        return self.topic or ("all brokers" if self.broker is None else f"broker {self.broker}")

    def as_json(self) -> dict[str, Any]:
        """The target in JSON; `"broker": null` is all brokers."""
        if self.client_metrics is not None:
            return {"client_metrics": self.client_metrics}
        return {"broker": self.broker} if self.topic is None else {"topic": self.topic}


@app.command()
def describe(
    topics: Topics = None,
    broker: Broker = None,
    broker_default: BrokerDefault = False,
    client_metrics: ClientMetrics = None,
    everything: Annotated[bool, typer.Option("--all", help="Also keys that it does not set itself.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Show the keys that a topic sets, or with --all every key, its value and the source of the value.

    A broker's output has the keys of its file, and those that were changed while it ran. A key that is read-only
    changes in the file, by a restart. For all brokers it has what `alter --broker-default` has set.
    """
    targets = _Target.of(topics, broker, broker_default, client_metrics)
    with patient_admin(bootstrap) as admin:
        found = {target: _described(admin, target, everything) for target in targets}
    if as_json:
        shown = {target: {name: _json(entry) for name, entry in keys.items()} for target, keys in found.items()}
        print_json(shown[targets[0]] if len(targets) == 1 else {str(target): keys for target, keys in shown.items()})
    elif targets[0].topic is None:
        rows = [(e.name, e.value, e.source, "yes" if e.is_read_only else "no") for e in found[targets[0]].values()]
        print_table(["key", "value", "source", "read-only"], rows)
    elif len(targets) == 1:
        print_table(["key", "value", "source"], [(e.name, e.value, e.source) for e in found[targets[0]].values()])
    else:
        each = [(t, e.name, e.value, e.source) for t, keys in found.items() for e in keys.values()]
        print_table(["topic", "key", "value", "source"], each)


@app.command("describe-broker", hidden=True)
def describe_broker(
    node_id: Annotated[int, typer.Argument(metavar="NODE_ID", min=0, max=INT32_MAX, help="The broker's node.id.")],
    everything: Annotated[bool, typer.Option("--all", help="Also the defaults.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Does what `describe --broker NODE_ID` does, under its earlier name."""
    describe(broker=node_id, everything=everything, bootstrap=bootstrap, as_json=as_json)


@app.command()
def alter(
    topics: Topics = None,
    broker: Broker = None,
    broker_default: BrokerDefault = False,
    client_metrics: ClientMetrics = None,
    to_set: Annotated[Pairs, typer.Option("--set", metavar="KEY=VALUE", help="Set a key.")] = None,
    to_unset: Annotated[
        Pairs, typer.Option("--unset", metavar="KEY", help="Return a key to what it is without this.")
    ] = None,
    to_append: Annotated[Pairs, typer.Option("--append", metavar="KEY=ITEM", help="Add an item to a list.")] = None,
    to_subtract: Annotated[
        Pairs, typer.Option("--subtract", metavar="KEY=ITEM", help="Remove an item from a list.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say whether it could be done; change nothing.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
    validate_only: Annotated[bool, typer.Option("--validate-only", hidden=True)] = False,
    to_delete: Annotated[Pairs, typer.Option("--delete", metavar="KEY", hidden=True)] = None,
) -> None:
    """Change keys of topics, of a broker that runs, or of all brokers: of each all of the given changes, or none.

    Other keys stay as they are. A broker's own value wins over that of all brokers, and that over the broker's file;
    docs/configuration.md says which keys of a broker can change while it runs.
    """
    targets, dry_run = _Target.of(topics, broker, broker_default, client_metrics), dry_run or validate_only
    pairs, unset = parse_pairs(to_set or [], "--set"), [*(to_unset or ()), *(to_delete or ())]
    lists = {
        "append": parse_pairs(to_append or [], "--append"),
        "subtract": parse_pairs(to_subtract or [], "--subtract"),
    }
    named = [*pairs, *unset, *lists["append"], *lists["subtract"]]
    _check_named(named, unset)
    if client_metrics is not None and any(lists.values()):
        raise ConfigError("--client-metrics: lists are given whole, by --set KEY=ITEM,ITEM")
    values: dict[str, str | None] = {**pairs, **dict.fromkeys(unset)}
    with patient_admin(bootstrap) as admin, telling_what_was_done() as done:
        for target in targets:
            if target.topic is not None:
                admin.alter_topic_config(target.topic, values, **lists, validate_only=dry_run)
            elif target.client_metrics is not None:
                admin.alter_client_metrics(target.client_metrics, values, validate_only=dry_run)
            else:
                admin.alter_broker_config(target.broker, values, **lists, validate_only=dry_run)
            done += [] if dry_run else [f"altered {target}"]
            if not as_json:
                say(f"{'would alter' if dry_run else 'altered'} {target}: {', '.join(sorted(named))}")
    if as_json:
        print_json(
            only_or_all([{**target.as_json(), "keys": sorted(named), "altered": not dry_run} for target in targets])
        )


def _described(admin: Admin, target: _Target, everything: bool) -> dict[str, ConfigEntry]:
    if target.client_metrics is not None:
        return _wanted(admin.describe_client_metrics(target.client_metrics), everything, None)
    if target.topic is not None:
        return _wanted(admin.describe_topic_config(target.topic), everything, "DYNAMIC_TOPIC_CONFIG")
    return _wanted(admin.describe_broker_config(target.broker), everything, None)


def _check_named(named: list[str], unset: list[str]) -> None:
    if not named:
        raise ConfigError("nothing to change; give --set KEY=VALUE, --unset KEY, --append or --subtract KEY=ITEM")
    for key in unset:
        if "=" in key or not key:
            raise ConfigError(f"--unset {key}: must be a key alone, like retention.ms")
    twice = sorted({key for key in named if named.count(key) > 1})
    if twice:
        raise ConfigError(f"{', '.join(twice)}: named more than once; change a key in one way at a time")


def _wanted(entries: Mapping[str, ConfigEntry], everything: bool, source: str | None) -> dict[str, ConfigEntry]:
    """The entries to show: all, those of the source, or without one all but the defaults."""
    return {
        name: entry
        for name, entry in sorted(entries.items())
        if everything or (entry.source == source if source is not None else not entry.is_default)
    }


def _json(entry: ConfigEntry) -> dict[str, Any]:
    return {
        "value": entry.value,
        "source": entry.source,
        "is_default": entry.is_default,
        "is_read_only": entry.is_read_only,
        "type": entry.type,
        "documentation": entry.documentation,
    }
