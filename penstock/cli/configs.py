"""`penstock configs describe|describe-broker|alter`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, parse_pairs
from penstock.cli.output import print_json, print_table
from penstock.cli.patience.watch import patient_admin
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.client.admin.admin_types import ConfigEntry

app = typer.Typer(
    help="Describe and change the configuration of topics; describe that of brokers.", no_args_is_help=True
)

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
Pairs = list[str] | None


@app.command()
def describe(
    topic: Topic,
    everything: Annotated[
        bool, typer.Option("--all", help="Also keys whose value is the broker's or the default.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Show the keys that a topic sets, or with --all every key, its value and the source of the value."""
    with patient_admin(bootstrap) as admin:
        entries = admin.describe_topic_config(topic)
    _print(entries, as_json, lambda entry: everything or entry.source == "DYNAMIC_TOPIC_CONFIG")


@app.command("describe-broker")
def describe_broker(
    node_id: Annotated[int, typer.Argument(metavar="NODE_ID", help="The broker's node.id.")],
    everything: Annotated[bool, typer.Option("--all", help="Also the defaults.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Show the keys in a broker's configuration file, or with --all every key."""
    with patient_admin(bootstrap) as admin:
        entries = admin.describe_broker_config(node_id)
    _print(entries, as_json, lambda entry: everything or not entry.is_default)


@app.command()
def alter(
    topic: Topic,
    to_set: Annotated[Pairs, typer.Option("--set", metavar="KEY=VALUE", help="Set a key.")] = None,
    to_delete: Annotated[Pairs, typer.Option("--delete", metavar="KEY", help="Return a key to its default.")] = None,
    to_append: Annotated[Pairs, typer.Option("--append", metavar="KEY=ITEM", help="Add an item to a list.")] = None,
    to_subtract: Annotated[
        Pairs, typer.Option("--subtract", metavar="KEY=ITEM", help="Remove an item from a list.")
    ] = None,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Check; change nothing.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Change keys of a topic's configuration: all of the given changes or none. Other keys stay as they are."""
    pairs, defaults = parse_pairs(to_set or [], "--set"), to_delete or []
    append, subtract = parse_pairs(to_append or [], "--append"), parse_pairs(to_subtract or [], "--subtract")
    named = [*pairs, *defaults, *append, *subtract]
    _check_named(named, defaults)
    values: dict[str, str | None] = {**pairs, **dict.fromkeys(defaults)}
    with patient_admin(bootstrap) as admin:
        admin.alter_topic_config(topic, values, append=append, subtract=subtract, validate_only=validate_only)
    if as_json:
        print_json({"topic": topic, "keys": sorted(named), "altered": not validate_only})
    else:
        print(f"{'would alter' if validate_only else 'altered'} {topic}: {', '.join(sorted(named))}")


def _check_named(named: list[str], defaults: list[str]) -> None:
    if not named:
        raise ConfigError("nothing to change; give --set KEY=VALUE, --delete KEY, --append or --subtract KEY=ITEM")
    for key in defaults:
        if "=" in key or not key:
            raise ConfigError(f"--delete {key}: must be a key alone, like retention.ms")
    twice = sorted({key for key in named if named.count(key) > 1})
    if twice:
        raise ConfigError(f"{', '.join(twice)}: named more than once; change a key in one way at a time")


def _print(entries: Mapping[str, ConfigEntry], as_json: bool, wanted: Callable[[ConfigEntry], bool]) -> None:
    shown = {name: entry for name, entry in sorted(entries.items()) if wanted(entry)}
    if as_json:
        print_json({name: _json(entry) for name, entry in shown.items()})
    else:
        print_table(["key", "value", "source"], [(e.name, e.value, e.source) for e in shown.values()])


def _json(entry: ConfigEntry) -> dict[str, Any]:
    return {
        "value": entry.value,
        "source": entry.source,
        "is_default": entry.is_default,
        "type": entry.type,
        "documentation": entry.documentation,
    }
