"""`penstock console`: a window on the cluster in a browser, until Ctrl-C.

It listens for this machine alone unless told otherwise; for others it wants TLS, or a word that it does without. The
packages for it are an extra, `console`. Not here: the console (penstock/console/).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import urlsplit

import typer

from penstock.addresses import is_loopback
from penstock.cli.dev_ports import PORT_MAX
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import note, print_json, say
from penstock.cli.security.users import password_in
from penstock.console.openid.urls import is_safe_url
from penstock.console.settings import DEFAULT_CONSOLE_HOST, DEFAULT_CONSOLE_PORT, ConsoleSettings, OpenIdSettings
from penstock.errors import ConfigError, MissingDependencyError
from penstock.types import Endpoint

PACKAGES: Final = ("starlette", "uvicorn", "jinja2", "httpx")
OF_CONNECTIONS: Final = ("tls", "tls_ca", "tls_server_name")
"""The options that every user's connection has; the others are the console's own user."""

Host = Annotated[
    str, typer.Option(metavar="NAME", help="The address where browsers reach it; other than this machine wants TLS.")
]
Port = Annotated[int, typer.Option(min=0, max=PORT_MAX, help="0 is a free one.")]
PublicUrl = Annotated[
    list[str] | None,
    typer.Option(
        metavar="URL",
        help="Another address at which browsers reach it, such as that of a proxy with TLS: https://console.example."
        " May be repeated.",
    ),
]
HttpsCert = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The certificate by which browsers know it, as PEM.")
]
HttpsKey = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Its private key, as PEM, if it is not in the same file.")
]
PlainHttp = Annotated[
    bool,
    typer.Option("--plain-http", help="Serve other machines without TLS: passwords and records go over the network."),
]
AllowChanges = Annotated[
    bool, typer.Option("--allow-changes", help="Let users change what their ACLs allow; otherwise it only shows.")
]
AuditTopic = Annotated[str, typer.Option(metavar="TOPIC", help="The topic that the nodes' audit logs are shipped to.")]

OpenIdIssuer = Annotated[
    str,
    typer.Option(
        metavar="URL", help="The identity provider (OpenID Connect) whose tokens the brokers take (OAUTHBEARER)."
    ),
]
OpenIdClient = Annotated[str, typer.Option(metavar="ID", help="The console's name at the identity provider.")]
OpenIdSecretFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The console's secret there, in the first line; a public client has none."),
]
OpenIdScopes = Annotated[str, typer.Option(metavar="WORDS", help="The scopes to ask for; openid is one of them.")]
OpenIdUserClaim = Annotated[
    str, typer.Option(metavar="NAME", help="The claim with the user's name, as sasl.oauthbearer.sub.claim.name has it.")
]
OpenIdAudience = Annotated[
    str, typer.Option(metavar="NAME", help="The audience to ask for, if the provider wants to be asked.")
]


def console(
    host: Host = DEFAULT_CONSOLE_HOST,
    port: Port = DEFAULT_CONSOLE_PORT,
    public_url: PublicUrl = None,
    https_cert: HttpsCert = None,
    https_key: HttpsKey = None,
    plain_http: PlainHttp = False,
    allow_changes: AllowChanges = False,
    audit_topic: AuditTopic = "",
    openid_issuer: OpenIdIssuer = "",
    openid_client_id: OpenIdClient = "",
    openid_client_secret_file: OpenIdSecretFile = None,
    openid_scopes: OpenIdScopes = "openid",
    openid_user_claim: OpenIdUserClaim = "sub",
    openid_audience: OpenIdAudience = "",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Show the cluster in a browser. Ctrl-C ends it.

    A cluster with users asks each person for theirs, and shows and does what its ACLs give that user. With
    --openid-issuer people may log in at an identity provider. A user of the console's own, by --username and the like,
    only watches.
    """
    check_packages()
    check_exposure(host, https_cert, public_url or (), plain_http=plain_http)
    from penstock.console.app import create_app
    from penstock.console.live import moving_routes
    from penstock.console.serving import ServerFiles, listen, serve_console
    from penstock.console.watching.cluster_watch import ClusterWatch

    openid = openid_settings(
        openid_issuer,
        openid_client_id,
        openid_client_secret_file,
        OpenIdWishes(openid_scopes, openid_user_claim, openid_audience),
    )
    files = None if https_cert is None else ServerFiles(https_cert, https_key)
    with listen(host, port) as listening:
        own = origins_of(host, listening.getsockname()[1], is_tls=files is not None)
        origins = (*own, *map(checked_url, public_url or ()))
        settings = settings_of(bootstrap, origins, os.environ, allow_changes, audit_topic)
        settings = with_openid(settings, openid)

        def ready() -> None:
            if as_json:
                print_json({"url": own[0], "bootstrap": bootstrap, "allow_changes": allow_changes})
                return
            note(f"a window on the cluster at {bootstrap}; Ctrl-C ends it")
            say(own[0], flush=True)

        app = create_app(settings, watch=ClusterWatch(settings), more=moving_routes)
        serve_console(app, listening, files, ready)


class OpenIdWishes(NamedTuple):
    """The console's wishes of a token."""

    scopes: str = "openid"
    user_claim: str = "sub"
    audience: str = ""


def openid_settings(
    issuer: str, client_id: str, secret_file: Path | None, wishes: OpenIdWishes = OpenIdWishes()
) -> OpenIdSettings | None:
    """The identity provider of the options; None without one. ConfigError for options that do not go together."""
    if not issuer:
        if client_id or secret_file is not None or wishes != OpenIdWishes():
            raise ConfigError("--openid-issuer is missing; the other --openid options say more of it")
        return None
    if not is_safe_url(issuer) or urlsplit(issuer).query:
        raise ConfigError(
            f"--openid-issuer {issuer}: must be https://…, as the provider writes it; http:// of this machine"
        )
    if not client_id:
        raise ConfigError("--openid-client-id is missing: the name that the provider has given the console")
    if "openid" not in wishes.scopes.split():
        raise ConfigError(f"--openid-scopes {wishes.scopes!r}: openid must be one of them")
    secret = "" if secret_file is None else password_in(str(secret_file), "--openid-client-secret-file")
    return OpenIdSettings(
        issuer=issuer,
        client_id=client_id,
        client_secret=secret,
        scopes=wishes.scopes,
        user_claim=wishes.user_claim,
        audience=wishes.audience,
    )


def with_openid(settings: ConsoleSettings, openid: OpenIdSettings | None) -> ConsoleSettings:
    """The settings with the provider. ConfigError for a cluster without TLS: a token would go over the network."""
    if openid is not None and not settings.connection:
        raise ConfigError("--openid-issuer: tokens go to brokers over TLS alone; give --tls-ca, or PENSTOCK_TLS=true")
    return replace(settings, openid=openid)


def check_packages() -> None:
    """MissingDependencyError where a package of the extra is not installed."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise MissingDependencyError(
            f"`penstock console` needs {', '.join(missing)}; install them with: pip install 'penstock[console]'"
        )


def check_exposure(host: str, https_cert: Path | None, public_urls: Sequence[str], *, plain_http: bool) -> None:
    """ConfigError for a console that other machines would reach without TLS, unless that is wanted by name."""
    behind_tls = bool(public_urls) and all(url.startswith("https://") for url in public_urls)
    if not (is_loopback(host) or https_cert is not None or behind_tls or plain_http):
        raise ConfigError(
            f"--host {host}: other machines would reach the console without TLS, and passwords would go over the"
            " network as they are. Give --https-cert FILE; or --public-url https://… of a proxy with TLS; or"
            " --plain-http where the network is trusted"
        )


def origins_of(host: str, port: int, *, is_tls: bool) -> tuple[str, ...]:
    """The addresses at which browsers reach it by itself. A loopback address has all the names of this machine."""
    scheme = "https" if is_tls else "http"
    names = [host]
    if is_loopback(host) or Endpoint(host, port).is_every_address:
        names = list(dict.fromkeys([*([host] if is_loopback(host) else []), "127.0.0.1", "localhost", "::1"]))
    shown = (f"[{name}]" if ":" in name else name for name in names)
    is_usual = port == (443 if is_tls else 80)
    return tuple(f"{scheme}://{name}" + ("" if is_usual else f":{port}") for name in shown)


def checked_url(url: str) -> str:
    """The origin of a URL, as browsers write it; ConfigError for one that has more, or is none."""
    parts = urlsplit(url)
    try:
        usual = {"http": 80, "https": 443}[parts.scheme]
        port, name = parts.port or usual, (parts.hostname or "").encode("idna").decode("ascii")
    except (KeyError, ValueError):
        name = ""
    if not name or parts.path not in ("", "/") or parts.query or parts.fragment or parts.username:
        raise ConfigError(f"--public-url {url}: must be http:// or https://, a name and maybe a port, and nothing else")
    shown = f"[{name}]" if ":" in name else name
    return f"{parts.scheme}://{shown}" + ("" if port == usual else f":{port}")


def settings_of(
    bootstrap: str,
    origins: tuple[str, ...],
    variables: Mapping[str, str],
    allow_changes: bool,
    audit_topic: str,
) -> ConsoleSettings:
    """The settings, with the options of connections from the variables. Those of a user are the console's own, and are
    taken out of the variables of this process, so that no other connection has them."""
    from penstock.client.options.security_options import VARIABLES, with_security

    found: dict[str, Any] = with_security("Console", {}, variables)
    for variable in VARIABLES.values():
        os.environ.pop(variable, None)
    return ConsoleSettings(
        bootstrap=bootstrap,
        origins=origins,
        connection={name: value for name, value in found.items() if name in OF_CONNECTIONS},
        own_login={name: value for name, value in found.items() if name not in OF_CONNECTIONS},
        allow_changes=allow_changes,
        audit_topic=audit_topic,
    )
