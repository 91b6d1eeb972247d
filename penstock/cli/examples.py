"""Examples of every command, for its `--help`: what is typed, and a word on it where the command does not say it.

A test parses each of them, and finds one for every command: so an option cannot be renamed without its example. Not
here: the page with all of them by subject (docs/command-line.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import typer

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "acls create": (
        "penstock acls create User:anna -o read --topic orders",
        "penstock acls create User:lake --role spark-sink --topic totals",
        "penstock acls create User:worker --consumer --topic orders --group bill",
        "penstock acls create User:worker --producer --topic bills --topic orders-dead --transactional-id bill-1",
    ),
    "acls delete": (
        "penstock acls delete User:anna -o read --topic orders",
        "penstock acls delete User:anna --all --dry-run",
    ),
    "acls list": ("penstock acls list --topic orders", "penstock acls list --principal User:anna --json"),
    "acls roles": ("penstock acls roles",),
    "acls test": ("penstock acls test User:anna read --topic orders",),
    "apply": (
        "penstock apply cluster.toml --dry-run",
        "penstock apply cluster.toml --prune acls --prune quotas --yes",
    ),
    "bench consume": ("penstock bench consume orders -n 1000000",),
    "bench produce": ("penstock bench produce orders -n 5000000 --size 100 --plot run.svg",),
    "brokers cordon": ("penstock brokers cordon 4", "penstock brokers cordon 4 --log-dir /data/b"),
    "brokers drain": ("penstock brokers drain 4 --dry-run", "penstock brokers drain 4 --throttle 10000000"),
    "brokers list": ("penstock brokers list",),
    "brokers uncordon": ("penstock brokers uncordon 4",),
    "brokers unregister": ("penstock brokers unregister 4 5",),
    "brokers wait": ("penstock brokers wait 4 5 --timeout 300",),
    "certs client": ("penstock certs client anna",),
    "certs init": ("penstock certs init --dir certs",),
    "certs node": ("penstock certs node 1 --host node-1.example --host 10.0.0.1",),
    "certs renew": ("penstock certs renew", "penstock certs renew penstock-certs/node-1.pem --days 90"),
    "certs show": ("penstock certs show", "penstock certs show node-1.pem --json"),
    "cluster balance": (
        "penstock cluster balance --dry-run",
        "penstock cluster balance --by replicas,leaders,bytes --throttle 10000000",
    ),
    "cluster describe": ("penstock cluster describe",),
    "cluster health": ("penstock cluster health", "penstock cluster health --json"),
    "configs alter": (
        "penstock configs alter orders payments --set retention.ms=86400000",
        "penstock configs alter --broker 2 --unset log.roll.ms --dry-run",
    ),
    "configs describe": ("penstock configs describe orders --all", "penstock configs describe --broker 2"),
    "console": (
        "penstock console",
        "penstock console --bootstrap node-1:9192 --tls-ca ca.pem --allow-changes",
        "penstock console --host 0.0.0.0 --https-cert console.pem --public-url https://console.example:9180",
    ),
    "consume": (
        "penstock consume orders --from-beginning --exit-at-end",
        "penstock consume orders:0 -o 41 -n 1 --json",
        "penstock consume orders --group shop",
    ),
    "demo": ("penstock demo --max-mb 16 --no-spark",),
    "dev": ("penstock dev", "penstock dev --nodes 3 --secure", "penstock dev --nodes 3 --console"),
    "debug bundle": (
        "penstock debug bundle",
        "penstock debug bundle --config /etc/penstock/1.toml --output node-1.tar.gz",
        "penstock debug bundle --no-cluster --config /etc/penstock/1.toml --log /var/log/penstock.log",
    ),
    "debug show": (
        "penstock debug show node-1.tar.gz",
        "penstock debug show node-1.tar.gz cluster/health.json",
    ),
    "elect-leaders": ("penstock elect-leaders orders payments:0,2", "penstock elect-leaders --all --dry-run"),
    "export": ("penstock export > cluster.toml", "penstock export --kind topics --kind acls"),
    "features describe": ("penstock features describe", "penstock features describe --json"),
    "features downgrade": (
        "penstock features downgrade --release-version 0.2.0 --dry-run",
        "penstock features downgrade --feature group.version=0",
    ),
    "features upgrade": (
        "penstock features upgrade --release-version 0.3.0 --dry-run",
        "penstock features upgrade --feature metadata.version=2",
    ),
    "groups delete": ("penstock groups delete shop bill",),
    "groups delete-offsets": ("penstock groups delete-offsets shop --topic old --topic orders:0,2",),
    "groups describe": ("penstock groups describe shop", "penstock groups describe --all --members"),
    "groups list": ("penstock groups list --state Empty", "penstock groups list --pattern 'shop-.*' --json"),
    "groups reset-offsets": (
        "penstock groups reset-offsets shop --topic orders --to-earliest --dry-run",
        "penstock groups reset-offsets shop --all-topics --by-duration PT2H",
    ),
    "log dump": ("penstock log dump /var/lib/penstock/1/data/orders-0 --records --count 10",),
    "log recover": ("penstock log recover /var/lib/penstock/1/data --dry-run",),
    "log verify": ("penstock log verify /var/lib/penstock/1/data --deep",),
    "log-dirs describe": (
        "penstock log-dirs describe",
        "penstock log-dirs describe --broker 2 --topic orders --replicas",
    ),
    "log-dirs move": ("penstock log-dirs move orders:0=/data/b orders:1=/data/b --broker 2 --wait",),
    "metadata digest": ("penstock metadata digest", "penstock metadata digest node-0/data node-1/data"),
    "metadata dump": ("penstock metadata dump --node 2", "penstock metadata dump node-0/data --at 4711"),
    "host check": ("penstock host check --config host.toml",),
    "host format": (
        "penstock host format",
        "penstock host format --cluster-id vIjnTC5QScOAGNVWPBnQ7g --join",
        "penstock host format --config host.toml --standalone",
    ),
    "host install": ("penstock host install --dry-run",),
    "host restart": (
        "penstock host restart --bootstrap host-b:9192",
        "penstock host restart --node 11 --wait-minutes 5",
    ),
    "host start": ("penstock host start --config host.toml",),
    "host status": ("penstock host status", "penstock host status --json"),
    "host stop": ("penstock host stop --node 11",),
    "host uninstall": ("penstock host uninstall --dry-run",),
    "node check": ("penstock node check --config /etc/penstock/1.toml",),
    "node format": (
        "penstock node format --config node.toml --secure",
        "penstock node format --config node.toml --cluster-id vIjnTC5QScOAGNVWPBnQ7g",
        "penstock node format --config node.toml --standalone",
        "penstock node format --config node.toml --release-version 0.2.0",
        "penstock node format --config node.toml --cluster-id vIjnTC5QScOAGNVWPBnQ7g --join",
    ),
    "node install": (
        "penstock node install --config ./1.toml --dry-run",
        "penstock node install --config /etc/penstock/1.toml",
    ),
    "node random-uuid": ("penstock node random-uuid",),
    "node recover-quorum": (
        "penstock node recover-quorum --config /etc/penstock/2.toml --from /var/lib/penstock/1/data --lost-voters 2,3"
        " --dry-run",
    ),
    "node start": (
        "penstock node start --config /etc/penstock/1.toml --log-level info,broker.replication=debug",
        "penstock node start --config env: --cluster-id 7PC9ms0-Q_u3kKqQvVvr8A --first-start join",
    ),
    "node uninstall": ("penstock node uninstall --config /etc/penstock/1.toml --dry-run",),
    "pipeline describe": ("penstock pipeline describe bronze",),
    "pipeline list": ("penstock pipeline list",),
    "pipeline run": ("penstock pipeline run bronze --conf bronze.toml",),
    "produce": (
        "penstock produce orders < lines.txt",
        "penstock produce orders --key-separator = < pairs.txt",
        "penstock produce orders --json < orders.jsonl",
    ),
    "quorum add-voter": (
        "penstock quorum add-voter 4@controller-4.example:9193:JEXY6aqzQY-32P5TStzaFg",
        "penstock quorum add-voter --config /etc/penstock/4.toml",
    ),
    "quorum describe": ("penstock quorum describe", "penstock quorum describe --json"),
    "quorum make-dynamic": ("penstock quorum make-dynamic",),
    "quorum remove-voter": (
        "penstock quorum remove-voter 3:pMcWYdbpTQSCqKrnGbcPKg --dry-run",
        "penstock quorum remove-voter 3@controller-3.example:9193:pMcWYdbpTQSCqKrnGbcPKg --yes",
    ),
    "quorum unregister": ("penstock quorum unregister 3 --dry-run", "penstock quorum unregister 3"),
    "quotas alter": (
        "penstock quotas alter --user anna --producer-byte-rate 1000000",
        "penstock quotas alter --ip 10.0.0.7 --connection-creation-rate 20",
    ),
    "quotas delete": ("penstock quotas delete --user anna",),
    "quotas list": ("penstock quotas list",),
    "reassignments create": (
        "penstock reassignments create orders:0=4,5,1 --wait",
        "penstock reassignments create --plan moves.json --dry-run",
    ),
    "reassignments delete": ("penstock reassignments delete orders payments:0", "penstock reassignments delete --all"),
    "reassignments list": ("penstock reassignments list",),
    "topics alter": ("penstock topics alter orders payments -p 12 --dry-run",),
    "topics create": (
        "penstock topics create orders payments -p 6 -r 3 -c retention.ms=86400000",
        "penstock topics create orders --if-not-exists",
    ),
    "topics delete": ("penstock topics delete orders payments --dry-run", "penstock topics delete orders --yes"),
    "topics delete-records": (
        "penstock topics delete-records orders:0 --before-offset 4711",
        "penstock topics delete-records orders --all --dry-run",
    ),
    "topics describe": ("penstock topics describe orders payments", "penstock topics describe --unavailable"),
    "topics list": ("penstock topics list --pattern 'orders-.*'",),
    "topics offsets": ("penstock topics offsets orders payments:0,2", "penstock topics offsets orders --time earliest"),
    "topics producers": ("penstock topics producers orders:0",),
    "transactions abort": (
        "penstock transactions abort till-1",
        "penstock transactions abort --partition orders:0 --start-offset 4711 --dry-run",
    ),
    "transactions describe": ("penstock transactions describe till-1 till-2",),
    "transactions find-hanging": ("penstock transactions find-hanging --topic orders --older-than 20",),
    "transactions list": ("penstock transactions list --state Ongoing --open-for 10",),
    "users alter": ("penstock users alter anna --new-password-file anna.password",),
    "users create": (
        "penstock users create anna",
        "penstock users create billing --new-password-file billing.password",
    ),
    "users delete": ("penstock users delete anna", "penstock users delete anna --mechanism SCRAM-SHA-512"),
    "users list": ("penstock users list",),
}
"""The examples by the words of the command, after `penstock`."""


def add_examples(group: typer.Typer, path: str = "") -> None:
    """Every command below `group` shows its examples at the end of its help."""
    for command in group.registered_commands:
        name = command.name or (command.callback.__name__.replace("_", "-") if command.callback else "")
        if lines := EXAMPLES.get(f"{path} {name}".strip()):
            command.epilog = "\n\n".join(("Examples:", *lines))
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            add_examples(inner.typer_instance, f"{path} {inner.name}".strip())
