"""The keys of a node for security, and what they come to.

Rows of config_table.py. Names are Kafka's; certificates and keys are PEM files (KIP-651). Each key of OF_ONE_LISTENER
may also be given as listener.name.<name>.<key>. Not here: the rules between them (security_check.py), and reading the
files (broker/tls/).
"""

from __future__ import annotations

from enum import StrEnum

from penstock.config_keys import INT64_MAX, boolean, duration_ms, integer, string, strings
from penstock.lazy_dataclass import dataclass
from penstock.sasl.mechanisms import MECHANISMS

PROTOCOL_MAP = "listener.security.protocol.map"
METRICS_LISTENER = "METRICS"
"""The name of metrics.listener in that map, and in the keys of one listener."""
MAPPING_RULES = "ssl.principal.mapping.rules"
DEFAULT_MAPPING_RULES = "DEFAULT"
DEFAULT_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ALLOW_PLAINTEXT_NODES = "allow.plaintext.node.listeners"
JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
AUDIENCE = "sasl.oauthbearer.expected.audience"
ISSUER = "sasl.oauthbearer.expected.issuer"
REFUSAL_DELAY = "connection.failed.authentication.delay.ms"


class ClientAuth(StrEnum):
    """A listener asks its clients for a certificate, or does not; Kafka's words."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


SECURITY = (
    strings(
        PROTOCOL_MAP,
        (),
        "The security of each listener, NAME:PROTOCOL: PLAINTEXT, SSL, SASL_SSL or SASL_PLAINTEXT. A listener that is "
        "not named is PLAINTEXT, or has the protocol that its name is; where one listener has TLS or log-ins, a start "
        "is refused until all are named. BROKER, CONTROLLER and the listener between brokers may be named on every "
        "node, also where it does not listen itself. METRICS is metrics.listener, with PLAINTEXT or SSL, and must be "
        "named where other machines reach it.",
    ),
    boolean(
        ALLOW_PLAINTEXT_NODES,
        False,
        "Kafka does not have it. Where listener.security.protocol.map gives one listener TLS or log-ins, CONTROLLER "
        "and the listener between brokers need TLS or a loopback address, because whoever reaches them acts as a node. "
        "True: they do not, for a network that only the nodes reach, or while a running cluster gets TLS. Not with an "
        "authorizer.",
    ),
    string(
        "ssl.keystore.location",
        "",
        "PEM file with the node's private key, not encrypted, and its certificate with those of the CAs between it and "
        "the root. Read again when it changes.",
    ),
    string("ssl.keystore.type", "PEM", "The form of that file (Kafka: JKS).", ("PEM",)),
    string(
        "ssl.truststore.location",
        "",
        "PEM file with the certificates of the CAs that may vouch for clients and other nodes. Read again when it "
        "changes.",
    ),
    string("ssl.truststore.type", "PEM", "The form of that file (Kafka: JKS).", ("PEM",)),
    string(
        "ssl.client.auth",
        ClientAuth.NONE.value,
        "Whether a listener with SSL asks clients for a certificate; `requested` (one may be shown) is for those of "
        "Kafka's protocol. CONTROLLER and the listener between brokers always require one.",
        tuple(ClientAuth),
    ),
    string(
        MAPPING_RULES,
        DEFAULT_MAPPING_RULES,
        "How the distinguished name of a client's certificate becomes its principal: RULE:pattern/replacement/[LU], "
        "with commas between; the first that fits counts. DEFAULT is the whole name.",
    ),
    strings(
        "sasl.enabled.mechanisms",
        DEFAULT_MECHANISMS,
        "How users log in at a listener with SASL. PLAIN shows the node the password, OAUTHBEARER a token: both are "
        "offered over TLS only.",
        tuple(MECHANISMS),
    ),
    duration_ms(
        "connections.max.reauth.ms",
        0,
        "A log-in counts for so long; a client logs in again before, by the same connection (KIP-368). 0: as long as "
        "its connection.",
        0,
        INT64_MAX,
    ),
    duration_ms(
        REFUSAL_DELAY,
        100,
        "The answer to a wrong password is held back for so long: who guesses is slow.",
        0,
        10_000,
    ),
    string(
        JWKS_URL,
        "",
        "Where the public keys are that verify tokens (OAUTHBEARER), as a JWKS: https://… of the issuer, or file:///… "
        "of this machine.",
    ),
    duration_ms(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        3_600_000,
        "How often they are asked for again; a file every 5 s, at least. A token of an unknown key has them asked for "
        "at once, every 10 s at most.",
    ),
    duration_ms(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        100,
        "The wait after they could not be had; doubles with each failure.",
    ),
    duration_ms("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10_000, "The longest of these waits."),
    strings(
        AUDIENCE,
        (),
        "A token must be for one of these (its aud). Empty: tokens that were made for other services count as well.",
    ),
    string(ISSUER, "", "A token must be of this issuer (its iss). Empty: of any whose key is there."),
    string(
        "sasl.oauthbearer.sub.claim.name",
        "sub",
        "The claim of a token that names the user: the principal is User:<its value>.",
    ),
    string(
        "sasl.oauthbearer.scope.claim.name",
        "scope",
        "The claim that has the scopes: a token is refused where it is neither a text nor a list of texts. Rights come "
        "from ACLs alone.",
    ),
    integer(
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        "The clocks of issuer and node may differ by so much.",
        0,
        600,
        "s",
    ),
)

AUTHORIZERS = ("StandardAuthorizer", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
AUTHORIZATION = (
    string(
        "authorizer.class.name",
        "",
        "StandardAuthorizer: the cluster's ACLs say who may do what, and who has no right is refused. Empty: everybody "
        "may do everything.",
        ("", *AUTHORIZERS),
    ),
    string(
        "super.users",
        "",
        "Principals that may do everything, whatever the ACLs say, with semicolons between: User:admin;User:CN=ops. "
        "They make the first ACLs.",
    ),
    boolean(
        "allow.everyone.if.no.acl.found",
        False,
        "Everybody may do everything to a resource for which there is no ACL.",
    ),
)
"""The keys whose value must be the same on every node: each broker judges its own clients."""

AUDIT = (
    string(
        "audit.log.location",
        "",
        "The file of the audit log, which only the node's user may read (docs/security.md); empty: the node's log. Not "
        "Kafka's, which has log4j.",
    ),
)

TLS_FILES = ("ssl.keystore.location", "ssl.truststore.location")
FILE_KEYS = frozenset((*TLS_FILES, "audit.log.location"))
"""Name a file: the path is made absolute, as those of log.dirs are, and may differ from node to node."""
FILE_ATTRIBUTES = frozenset(name.replace(".", "_") for name in FILE_KEYS)
OF_METRICS = tuple(key.name for key in SECURITY if key.name.startswith("ssl.") and "mapping" not in key.name)
"""The keys of one listener that METRICS may have: it has no principals."""
OF_ALL_LISTENERS = (PROTOCOL_MAP, ALLOW_PLAINTEXT_NODES, REFUSAL_DELAY)
OF_ONE_LISTENER = tuple(key.name for key in SECURITY if key.name not in OF_ALL_LISTENERS)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The files of one listener, and what it asks of who connects. The same files serve connections to the other
    nodes' listeners of that name."""

    keystore: str
    truststore: str
    client_auth: ClientAuth
    mapping_rules: str
