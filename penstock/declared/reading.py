"""Reads a file that declares a cluster: TOML, with every fault told by its key. Pure: the bytes are given.

    [topics.orders]                     [users.anna]                        [[acls]]
    partitions = 6                      mechanisms = ["SCRAM-SHA-256"]      principal = "User:anna"
    replication-factor = 3              password-env = "ANNA_PASSWORD"      operations = ["Read", "Describe"]
    config = { "retention.ms" = 1 }                                         topic = "orders"

    [brokers.default]                   [brokers.2]                         [[quotas]]
    config = { … }                      config = { … }                      user = "anna"
                                                                            producer_byte_rate = 1000000

A key that is not known is refused, because a wrong word would be left out without a sign. Passwords are never in the
file, only where they are found. Numbers of a configuration may be written as numbers. An ACL has a name in one of
`topic`, `group`, `transactional-id` and `cluster = true`; `host`, `permission` and `pattern` may be left out. A quota
has `user`, `client-id` or both, or `ip`; `*` is everybody without a quota of its own, in Kafka's `--entity-default`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

from penstock.config_keys import config_text, did_you_mean
from penstock.declared.state import DeclaredState, DeclaredTopic, DeclaredUser
from penstock.errors import ConfigError, InvalidTopicError
from penstock.messages.security.acls import CLUSTER_NAME, AclBinding, Operation, PatternType, Permission, ResourceType
from penstock.messages.security.quotas import ADDRESS_KEYS, DEFAULT_NAME, QUOTA_KEYS, QuotaEntity
from penstock.sasl.credentials import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism
from penstock.topic_names import INTERNAL_NAMES, validate_topic_name

FILE_BYTES_MAX: Final = 16 * 1024 * 1024
"""100,000 topics with some keys each."""
THINGS_MAX: Final = 100_000
"""Limit for the topics, and for the ACLs, users and quotas: a cluster has no more partitions."""
MECHANISMS: Final = tuple(one.sasl_name for one in ScramMechanism)
EVERYBODY: Final = "*"
OF_ALL_BROKERS: Final = "default"
NESTED_MAX: Final = 16
"""Tables in each other in a configuration: no key of one has so many dots."""
_INT32_MAX: Final = 2**31 - 1
_INTEGER_MAX: Final = 2**63
"""No number of a cluster is so large. A larger one would end in an error of Python's own: as a text, or as a float."""
_ID_DIGITS_MAX: Final = 10

RESOURCES: Final[Mapping[str, ResourceType]] = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}
OPERATIONS: Final = {one.value.lower(): one for one in Operation if one not in (Operation.UNKNOWN, Operation.ANY)}
_PERMISSIONS: Final = {one.value: one for one in (Permission.ALLOW, Permission.DENY)}
_PATTERNS: Final = {one.value: one for one in (PatternType.LITERAL, PatternType.PREFIXED)}
_OF_ACL: Final = ("principal", "operations", "permission", "host", "pattern", "cluster", *RESOURCES)
_NAMED: Final = ("topics", "brokers", "users")
_OF_ENTITY: Final = ("user", "client-id", "ip")


def read_declared(name: str, data: bytes) -> DeclaredState:
    """The state that the file declares; ConfigError names the file, the key and what is wrong with it."""
    return _File(name).state(_tables(name, data))


def _tables(name: str, data: bytes) -> dict[str, Any]:
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"{name}: larger than {FILE_BYTES_MAX} bytes; divide it into several files")
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not UTF-8 at byte {error.start}; save the file as UTF-8") from None
    except RecursionError:
        raise ConfigError(f"{name}: not valid TOML: arrays or tables in each other; remove the brackets") from None
    except ValueError as error:  # TOMLDecodeError, which names line and column, or a number that is too long
        raise ConfigError(f"{name}: not valid TOML: {error}; docs/declared-state.md has an example") from None


class _File:
    """One file while it is read; its name stands before every fault."""

    def __init__(self, name: str) -> None:
        self._name = name

    def state(self, tables: dict[str, Any]) -> DeclaredState:
        self._check_keys("", tables, (*_NAMED, "acls", "quotas"))
        acls = [acl for at, one in self._items("acls", tables) for acl in self._acls(at, one)]
        quotas: dict[QuotaEntity, Mapping[str, float]] = {}
        for at, one in self._items("quotas", tables):
            entity, values = self._quota(at, one)
            if entity in quotas:
                self._refuse(at, f"{entity} has quotas in another place of the file; keep one")
            quotas[entity] = values
        self._check_count("acls", len(acls))
        return DeclaredState(
            topics={key: self._topic(key, one) for key, one in self._named("topics", tables)},
            configs=dict(self._broker(key, one) for key, one in self._named("brokers", tables)),
            users={key: self._user(key, one) for key, one in self._named("users", tables)},
            acls=frozenset(acls),
            quotas=quotas,
        )

    # -- the kinds -----------------------------------------------------------------------------------------------------

    def _topic(self, key: str, given: dict[str, Any]) -> DeclaredTopic:
        at = f"topics.{key}"
        try:
            validate_topic_name(key)
        except InvalidTopicError as error:
            self._refuse(at, str(error))
        if key in INTERNAL_NAMES:
            self._refuse(at, "is one of the cluster's own topics, which it makes and configures itself; remove it")
        self._check_keys(at, given, ("partitions", "replication-factor", "config"))
        return DeclaredTopic(
            key,
            self._number(at, given, "partitions"),
            self._number(at, given, "replication-factor"),
            self._config(at, given),
        )

    def _broker(self, key: str, given: dict[str, Any]) -> tuple[int | None, Mapping[str, str]]:
        at = f"brokers.{key}"
        self._check_keys(at, given, ("config",))
        if key == OF_ALL_BROKERS:
            return None, self._config(at, given)
        is_id = key.isascii() and key.isdecimal() and len(key) <= _ID_DIGITS_MAX and str(int(key)) == key
        if not is_id or int(key) > _INT32_MAX:
            self._refuse(at, f"is not the id of a broker; give a number, or {OF_ALL_BROKERS!r} for all brokers")
        return int(key), self._config(at, given)

    def _user(self, key: str, given: dict[str, Any]) -> DeclaredUser:
        at = f"users.{key}"
        if "password" in given:
            self._refuse(f"{at}.password", "a password must not be in the file; give password-env or password-file")
        self._check_keys(at, given, ("mechanisms", "iterations", "password-env", "password-file"))
        if not key:
            self._refuse(at, "a user's name must not be empty")
        mechanisms = self._texts(at, given, "mechanisms") or MECHANISMS
        for one in mechanisms:
            if one not in MECHANISMS:
                near = did_you_mean(one, MECHANISMS)
                self._refuse(f"{at}.mechanisms", f"{one!r} must be one of {', '.join(MECHANISMS)}{near}")
        iterations = self._number(at, given, "iterations", ITERATIONS_MIN, ITERATIONS_MAX)
        user = DeclaredUser(
            key,
            tuple(sorted(set(mechanisms))),
            iterations,
            self._text(at, given, "password-env"),
            self._text(at, given, "password-file"),
        )
        if user.password_env and user.password_file:
            self._refuse(at, "give one of password-env and password-file")
        return user

    def _acls(self, at: str, given: dict[str, Any]) -> Iterator[AclBinding]:
        self._check_keys(at, given, _OF_ACL)
        named = [key for key in (*RESOURCES, "cluster") if key in given]
        if len(named) != 1:
            self._refuse(at, f"name one resource: {', '.join(RESOURCES)}, or cluster = true")
        if named == ["cluster"]:
            if given["cluster"] is not True:
                self._refuse(f"{at}.cluster", "must be true")
            resource, name = ResourceType.CLUSTER, CLUSTER_NAME
        else:
            resource, name = RESOURCES[named[0]], self._text(at, given, named[0])
        principal = self._text(at, given, "principal")
        if ":" not in principal:
            self._refuse(f"{at}.principal", f"{principal!r} must be like 'User:anna', or 'User:*' for everybody")
        operations = self._texts(at, given, "operations")
        if not name or not operations:
            self._refuse(at, "needs the name of a resource, and at least one of operations")
        permission = self._word(at, given, "permission", _PERMISSIONS, Permission.ALLOW)
        pattern = self._word(at, given, "pattern", _PATTERNS, PatternType.LITERAL)
        host = self._text(at, given, "host") or "*"
        for operation in operations:
            word = operation.replace("-", "").replace("_", "").lower()
            if word not in OPERATIONS:
                known = ", ".join(one.value for one in OPERATIONS.values())
                near = did_you_mean(word, OPERATIONS)
                self._refuse(f"{at}.operations", f"{operation!r} must be one of {known}{near}")
            yield AclBinding(resource, name, principal, OPERATIONS[word], permission, host, pattern)

    def _quota(self, at: str, given: dict[str, Any]) -> tuple[QuotaEntity, dict[str, float]]:
        self._check_keys(at, given, (*_OF_ENTITY, *QUOTA_KEYS, *ADDRESS_KEYS))
        parts = {key: self._text(at, given, key) if key in given else None for key in _OF_ENTITY}
        if any(part == "" for part in parts.values()):
            self._refuse(at, f"a name is empty; {EVERYBODY!r} is everybody without a quota of its own")
        user, client_id, ip = (DEFAULT_NAME if part == EVERYBODY else part for part in parts.values())
        if user is None and client_id is None and ip is None:
            self._refuse(at, "names nobody; give user, client-id or both, or ip")
        if ip is not None and (user is not None or client_id is not None):
            self._refuse(at, "an address has quotas of its own; give ip alone, or user and client-id")
        entity = QuotaEntity(user, client_id, ip)
        values = {key: self._rate(f"{at}.{key}", given[key]) for key in given if key not in _OF_ENTITY}
        wrong = [key for key in values if (key in ADDRESS_KEYS) != (ip is not None)]
        if wrong or not values:
            keys = ADDRESS_KEYS if ip is not None else QUOTA_KEYS
            self._refuse(at, f"{entity} can have {', '.join(keys)}; give at least one, and no other")
        return entity, values

    # -- values --------------------------------------------------------------------------------------------------------

    def _config(self, at: str, given: dict[str, Any]) -> dict[str, str]:
        """The keys as text. A table in a table is a name with dots that has no quotes: it means the same."""
        config = given.get("config", {})
        if not isinstance(config, dict):
            self._refuse(f"{at}.config", "must be a table of keys and values")
        found: dict[str, str] = {}
        for key, value in self._flat(f"{at}.config", "", config):
            if key in found:
                self._refuse(f"{at}.config.{key}", "is given twice, with quotes and without; keep one")
            found[key] = value
        return found

    def _flat(self, at: str, prefix: str, table: dict[str, Any], depth: int = 1) -> Iterator[tuple[str, str]]:
        for key, value in table.items():
            if isinstance(value, dict):
                if depth == NESTED_MAX:
                    self._refuse(at, f"has more than {NESTED_MAX} tables in each other; no key has so many dots")
                yield from self._flat(at, f"{prefix}{key}.", value, depth + 1)
            elif isinstance(value, str | bool | int | float) or _is_texts(value):
                if _is_huge(value):
                    self._refuse(f"{at}.{prefix}{key}", f"{_shown(value)}; give a smaller one")
                yield prefix + key, config_text(value).strip()
            else:
                self._refuse(f"{at}.{prefix}{key}", "must be a text, a number, true, false, or a list of texts")

    def _number(self, at: str, given: dict[str, Any], key: str, low: int = 1, high: int = _INT32_MAX) -> int | None:
        value = given.get(key)
        if value is not None and (type(value) is not int or not low <= value <= high):
            self._refuse(f"{at}.{key}", f"{_shown(value)} must be a number from {low} to {high}")
        return value

    def _rate(self, at: str, value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and not _is_huge(value)
        if not is_number or not 0 < float(value) < float("inf"):
            self._refuse(at, f"{_shown(value)} must be a number above 0")
        return float(value)

    def _text(self, at: str, given: dict[str, Any], key: str) -> str:
        value = given.get(key, "")
        if not isinstance(value, str):
            self._refuse(f"{at}.{key}", f"{_shown(value)} must be a text in quotes")
        return value

    def _texts(self, at: str, given: dict[str, Any], key: str) -> list[str]:
        value = given.get(key, [])
        if not _is_texts(value):
            self._refuse(f"{at}.{key}", 'must be a list of texts, like ["…"]')
        return list(value)

    def _word(self, at: str, given: dict[str, Any], key: str, known: Mapping[str, Any], default: Any) -> Any:
        word = self._text(at, given, key)
        if word and word not in known:
            self._refuse(f"{at}.{key}", f"{word!r} must be one of {', '.join(known)}")
        return known.get(word, default)

    # -- tables --------------------------------------------------------------------------------------------------------

    def _named(self, kind: str, tables: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        given = tables.get(kind, {})
        if not isinstance(given, dict):
            self._refuse(kind, f"must be tables, like [{kind}.NAME]")
        self._check_count(kind, len(given))
        for key, one in given.items():
            if not isinstance(one, dict):
                self._refuse(f"{kind}.{key}", f"must be a table: [{kind}.{key}]")
        return list(given.items())

    def _items(self, kind: str, tables: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        given = tables.get(kind, [])
        if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            self._refuse(kind, f"must be a list of tables, each begun by [[{kind}]]")
        self._check_count(kind, len(given))
        return ((f"{kind}[{number}]", one) for number, one in enumerate(given, 1))

    def _check_count(self, kind: str, count: int) -> None:
        if count > THINGS_MAX:
            self._refuse(kind, f"has {count} entries; at most {THINGS_MAX} are allowed")

    def _check_keys(self, at: str, given: dict[str, Any], known: tuple[str, ...]) -> None:
        for key, value in given.items():
            if key not in known:
                where = f"{at}.{key}" if at else key
                kind, _, name = where.partition(".")
                if kind in _NAMED and isinstance(value, dict):
                    self._refuse(where, f'unknown table; a name with dots has quotes, like [{kind}."{name}"]')
                self._refuse(where, f"unknown key; known are {', '.join(known)}{did_you_mean(key, known)}")

    def _refuse(self, at: str, why: str) -> NoReturn:
        raise ConfigError(f"{self._name}: {at}: {why}")


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_huge(value: object) -> bool:
    return isinstance(value, int) and not -_INTEGER_MAX < value < _INTEGER_MAX


def _shown(value: object) -> str:
    """A wrong value as an error shows it."""
    if _is_huge(value):
        return "a number of more than 63 bits"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a table"
    return repr(value)
