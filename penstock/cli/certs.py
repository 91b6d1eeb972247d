"""`penstock certs init|node|client|renew|show`: a private CA for one cluster, and the certificates that it signs.

All of it is files; no node is asked. A node takes a renewed file by itself (broker/tls/certificates.py).
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.options import AsJson
from penstock.cli.output import note, print_json, print_table, say
from penstock.written.numbers import INT32_MAX

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

app = typer.Typer(
    help="A private CA for one cluster: make, renew and show the certificates of nodes and clients.",
    no_args_is_help=True,
)

COLUMNS = ("file", "owner", "names", "ends", "days_left")
Directory = Annotated[
    str, typer.Option("--dir", metavar="DIR", help="The CA's directory: keep it off the nodes, and keep a copy of it.")
]
DEFAULT_DIRECTORY = "penstock-certs"
Days = Annotated[
    int, typer.Option("--days", metavar="N", min=1, max=36_500, help="How long it is valid; never longer than the CA.")
]
_YEAR, _TEN_YEARS = 365, 3_650


@app.command("init")
def make_ca(
    directory: Directory = DEFAULT_DIRECTORY,
    cluster_id: Annotated[
        str,
        typer.Option(
            metavar="ID", help="The cluster's id, if it has one (`penstock cluster describe`); else a new one."
        ),
    ] = "",
    days: Days = _TEN_YEARS,
    as_json: AsJson = False,
) -> None:
    """Make the CA of a cluster: ca.pem, which every node and client trusts, and ca.key.

    Anybody with ca.key can act as any node and any client. The command prints the cluster's id, for `penstock node
    format`.
    """
    from penstock.certs.authority import CA_FILE, CA_KEY_FILE, Authority

    made = Authority.create(directory, cluster_id, days)
    if as_json:
        files = {"ca": str(made.directory / CA_FILE), "ca_key": str(made.directory / CA_KEY_FILE)}
        print_json({"cluster_id": made.cluster_id, **files})
        return
    say(made.cluster_id)
    note(f"{made.directory / CA_FILE} is for every node and client; let nobody read {made.directory / CA_KEY_FILE}")
    note(f"format the nodes with --cluster-id {made.cluster_id}")


@app.command("node")
def make_node(
    node_id: Annotated[int, typer.Argument(metavar="ID", min=0, max=INT32_MAX, help="The node's node.id.")],
    hosts: Annotated[
        list[str],
        typer.Option(
            "--host",
            metavar="HOST",
            help="A name or an address in its advertised.listeners, by which clients reach it; may be repeated.",
        ),
    ],
    directory: Directory = DEFAULT_DIRECTORY,
    days: Days = _YEAR,
    as_json: AsJson = False,
) -> None:
    """Make the key and certificate of a node, in one file: its ssl.keystore.location."""
    from penstock.certs.authority import Authority

    _tell_made(Authority.open(directory).node(node_id, hosts, days), as_json)


@app.command("client")
def make_client(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its principal is User:CN=NAME, if no rule says more.")],
    directory: Directory = DEFAULT_DIRECTORY,
    days: Days = _YEAR,
    as_json: AsJson = False,
) -> None:
    """Make the key and certificate of a client, in one file, for listeners with ssl.client.auth."""
    from penstock.certs.authority import Authority

    _tell_made(Authority.open(directory).client(name, days), as_json)


def _tell_made(path: Path, as_json: bool) -> None:
    if as_json:
        print_json({"file": str(path)})
    else:
        say(path)


@app.command()
def renew(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]...", help="Certificates; without one, all of the directory.")
    ] = None,
    directory: Directory = DEFAULT_DIRECTORY,
    days: Days = _YEAR,
    as_json: AsJson = False,
) -> None:
    """Write certificates anew: a new key, the same names. A node that has the file takes it within some seconds.

    Copy a renewed file to its node under another name, then rename it there: so the node never sees half of it.
    """
    from penstock.certs.authority import Authority

    authority = Authority.open(directory)
    renewed = []
    for path in map(Path, files) if files else authority.certificates():
        ends = authority.renew(path, days)
        renewed.append({"file": str(path), "ends": f"{ends:%Y-%m-%d}"})
        if not as_json:
            say(path, f"{ends:%Y-%m-%d}")
    if as_json:
        print_json(renewed)


@app.command()
def show(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]...", help="PEM files; without one, all of the directory.")
    ] = None,
    directory: Directory = DEFAULT_DIRECTORY,
    as_json: AsJson = False,
) -> None:
    """Show whose certificates there are, their names, and when they end. No private key is shown."""
    from penstock.certs.authority import CA_FILE, Authority, read_certificates

    authority = None if files else Authority.open(directory)
    paths = [Path(directory) / CA_FILE, *authority.certificates()] if authority else list(map(Path, files or ()))
    rows = [_row(path, certificate) for path in paths for certificate in read_certificates(path)]
    if as_json:
        print_json([dict(zip(COLUMNS, row, strict=True)) for row in rows])
    else:
        print_table(COLUMNS, [(*row[:2], ",".join(row[2]), *row[3:]) for row in rows])


def _row(path: Path, certificate: Certificate) -> tuple[str, str, list[str], str, int]:
    from penstock.certs.authority import names_of

    ends = certificate.not_valid_after_utc
    left = (ends - datetime.now(UTC)).days
    return str(path), certificate.subject.rfc4514_string(), list(names_of(certificate)), f"{ends:%Y-%m-%d}", left
