"""`penstock features describe|upgrade|downgrade`: the levels of features, which say what a mixed cluster may use.

The words are those of Kafka's kafka-features.sh. A change says first which nodes hinder it, with --dry-run, and what
would be lost. Not here: what a level allows (the nodes say it), and which change is possible when.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock import __version__
from penstock.cli.edge.asking import DryRun, Yes, agree
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import note, print_json, print_table, say
from penstock.cli.patience.watch import patient_admin
from penstock.errors import ConfigError, InvalidUpdateVersionError
from penstock.messages.features import release_number

if TYPE_CHECKING:
    from penstock import Admin
    from penstock.client.admin.feature_calls import FeatureChanges
    from penstock.messages.features import FeatureNode, FeaturesInfo

EXIT_REFUSED: Final = 1
FEATURE_COLUMNS: Final = ("feature", "supported min", "supported max", "finalized level", "since", "allows")
NODE_COLUMNS: Final = ("node", "kind", "supports", "last heard ms ago")

app = typer.Typer(help="Feature levels: show them, raise them after an upgrade, lower them.", no_args_is_help=True)

Features = Annotated[
    list[str] | None,
    typer.Option(
        "--feature", metavar="NAME=LEVEL", help="A feature and its new level. May be repeated.", show_default=False
    ),
]
ReleaseVersion = Annotated[
    str,
    typer.Option(metavar="RELEASE", help="The levels of this release, such as 0.3.0, for all features."),
]


@app.callback()
def _features() -> None:
    """Feature levels: show them, raise them after an upgrade, lower them."""


@app.command()
def describe(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show each feature with its finalized level and what that allows, and what each node supports."""
    with patient_admin(bootstrap) as admin:
        info = admin.describe_features()
    if as_json:
        print_json(_document(info))
    else:
        print_table(FEATURE_COLUMNS, [_row(info, one.name) for one in info.features])
        print_table(NODE_COLUMNS, [_node_row(node) for node in info.nodes])
    if info.only_own_view:
        note("no controller answers that has feature levels: this is what one node knows by itself")


@app.command()
def upgrade(
    feature: Features = None,
    release_version: ReleaseVersion = "",
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Raise levels once every node runs a release that knows them. All are raised, or none.

    From then on no older release can be installed, unless the levels are lowered first.
    """
    with patient_admin(bootstrap) as admin:
        levels = _wanted(admin, feature, release_version, raises=True)
        found = admin.upgrade_features(levels, dry_run=dry_run) if levels else None
    _show(found, dry_run=dry_run, as_json=as_json)


@app.command()
def downgrade(
    feature: Features = None,
    release_version: ReleaseVersion = "",
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Also where records are lost by it; --dry-run says which.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Lower levels, so that an older release can be installed again. All are lowered, or none.

    At a terminal an unsafe downgrade asks.
    """
    with patient_admin(bootstrap) as admin:
        levels = _wanted(admin, feature, release_version, raises=False)
        if levels and unsafe and not dry_run:
            lost = admin.downgrade_features(levels, unsafe=True, dry_run=True).lost
            agree([f"lost: {line}" for line in lost], "Lower the levels?", yes=yes)
        found = admin.downgrade_features(levels, unsafe=unsafe, dry_run=dry_run) if levels else None
    _show(found, dry_run=dry_run, as_json=as_json)


def _wanted(admin: Admin, features: Sequence[str] | None, release: str, *, raises: bool) -> Mapping[str, int]:
    """The levels that the options name; of a release those that are higher, or lower, than the present ones."""
    if bool(features) == bool(release):
        raise ConfigError("name levels by --feature NAME=LEVEL, or all those of a release by --release-version RELEASE")
    if features:
        return _parsed(features)
    info = admin.describe_features()
    try:
        levels, ahead = info.levels_of(release), info.nodes_ahead(release)
    except ValueError as error:
        raise ConfigError(f"--release-version {release[:32]}: {error}") from None
    if raises and ahead:
        raise InvalidUpdateVersionError(
            f"the active controller does not know the levels of release {release}, and node {ahead[0]} does: install"
            " that release on the active controller, too (`penstock quorum describe` names it as the leader)"
        )
    newest = max(release_number(each.since) for one in info.features for each in one.levels)
    if raises and release_number(release) > max(newest, release_number(__version__)):
        note(f"release {release} is newer than this penstock, {__version__}, and no node knows a level of it")
    now = {one.name: one.level for one in info.features}
    return {name: level for name, level in levels.items() if (level > now[name] if raises else level < now[name])}


def _parsed(features: Sequence[str]) -> Mapping[str, int]:
    levels: dict[str, int] = {}
    for text in features:
        name, _, level = text.partition("=")
        if not name or not level.isascii() or not level.isdecimal() or len(level) > 5:
            raise ConfigError(f"--feature {text[:64]!r} must be NAME=LEVEL, such as metadata.version=2")
        if name in levels:
            raise ConfigError(f"--feature: {name[:64]} is there twice")
        levels[name] = int(level)
    return levels


def _show(found: FeatureChanges | None, *, dry_run: bool, as_json: bool) -> None:
    if found is None:
        if as_json:
            print_json({"changes": [], "dry_run": dry_run})
        else:
            say("nothing to do: every feature has that level, or is beyond it")
        return
    if as_json:
        print_json(_outcome(found, dry_run=dry_run))
    else:
        _say_outcome(found, dry_run=dry_run)
    if found.refusal is not None:
        raise typer.Exit(EXIT_REFUSED)


def _say_outcome(found: FeatureChanges, *, dry_run: bool) -> None:
    for hindrance in found.hindrances:
        say(f"{hindrance.feature} is hindered: {hindrance.reason}")
    for line in found.lost:
        say(f"{'would be lost' if dry_run else 'lost'}: {line}")
    if found.refusal is not None:
        note(f"it would be refused: {found.refusal.message}")
        return
    for one in found.changes:
        if one.before == one.level:
            say(f"{one.name} is {one.level} already")
        else:
            verb = "would be" if dry_run else "was"
            say(f"{one.name} {verb} {'upgraded' if one.level > one.before else 'downgraded'} to {one.level}")


def _outcome(found: FeatureChanges, *, dry_run: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "changes": [{"feature": one.name, "before": one.before, "level": one.level} for one in found.changes],
        "lost": list(found.lost),
        "dry_run": dry_run,
    }
    if dry_run:
        refused = found.refusal
        document["refused"] = None if refused is None else {"name": refused.kafka_name, "message": refused.message}
        document["hindrances"] = [
            {"node_id": one.node_id, "feature": one.feature, "reason": one.reason} for one in found.hindrances
        ]
    return document


def _row(info: FeaturesInfo, name: str) -> tuple[object, ...]:
    one = info.feature(name)
    if one is None:
        return (name, "-", "-", "-", "-", "-")
    level = next((each for each in one.levels if each.level == one.level), None)
    since, allows = ("-", "-") if level is None else (level.since, level.allows)
    return (one.name, one.first, one.last, one.level, since, allows)


def _node_row(node: FeatureNode) -> tuple[object, ...]:
    kinds = [*(["voter"] if node.is_voter else []), *(["broker"] if node.is_broker else [])]
    ranges = ", ".join(f"{one.name} {one.first}-{one.last}" for one in node.ranges)
    unsaid = "not heard of" if node.last_heard_ms_ago < 0 else "says nothing: release 0.2.0 or before"
    heard = node.last_heard_ms_ago if node.last_heard_ms_ago >= 0 else "-"
    return (node.node_id, "+".join(kinds) or "observer", ranges or unsaid, heard)


def _document(info: FeaturesInfo) -> dict[str, Any]:
    return {
        "features": [
            {
                "feature": one.name,
                "supported_min": one.first,
                "supported_max": one.last,
                "finalized_level": one.level,
                "levels": [{"level": each.level, "since": each.since, "allows": each.allows} for each in one.levels],
            }
            for one in info.features
        ],
        "nodes": [
            {
                "node_id": node.node_id,
                "is_voter": node.is_voter,
                "is_broker": node.is_broker,
                "supports": {one.name: [one.first, one.last] for one in node.ranges},
                "last_heard_ms_ago": node.last_heard_ms_ago,
            }
            for node in info.nodes
        ],
        "metadata_offset": info.metadata_offset,
        "only_own_view": info.only_own_view,
    }
