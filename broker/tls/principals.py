r"""Names the owner of a client certificate: its distinguished name, and Kafka's rules that make a principal of it.

    ssl.principal.mapping.rules = RULE:^CN=(.*?),OU=Servers.*$/$1/L,DEFAULT

A rule is pattern/replacement, then L or U for small or capital letters; the first whose pattern matches the whole name
counts, and DEFAULT leaves the name as it is (KIP-371). Patterns are RE2's, which take time linear in the name; those of
Java that RE2 lacks (lookahead, \1 in a pattern) are refused at the start. Replacements are Java's (Matcher.replaceAll):

    $1 $12      a group, by as many digits as name one that is there; $0 is all that has matched
    ${user}     the group (?<user>…)
    \$ \\ \x    the character after the backslash

Anything else after a $, or a group that the pattern lacks, is refused: as plain text it would make one principal of all
clients. The name is written as Java writes it (RFC 2253), because rules and ACLs of a Kafka cluster are written for
that form. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import re2
from cryptography import x509

from broker.tls.pem import identity_of, ms_of
from penstock.certs.node_identity import NodeIdentity
from penstock.errors import ConfigError
from penstock.messages.security.acls import ANONYMOUS_USER, USER_TYPE

KEY: Final = "ssl.principal.mapping.rules"
_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,|$)"
)
_REFERENCE: Final = re.compile(
    r"\\(?P<escaped>.)|\$(?P<digits>[0-9]+)|\$\{(?P<name>[a-zA-Z][a-zA-Z0-9]*)\}|(?P<text>[^\\$]+)|(?P<wrong>.)"
)
_JAVAS_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""The attributes that RFC 2253 has a word for; of every other one Java writes the number and the bytes."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_MEMORY_BYTES_MAX: Final = 1 << 20


class _Rule(NamedTuple):
    pattern: Any
    replacement: tuple[str | int, ...]
    """Texts, and numbers of groups."""
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern.fullmatch(name) is None:
            return None
        parts, end = [], 0
        for match in self.pattern.finditer(name):  # Java's replaceAll
            parts += [
                name[end : match.start()],
                "".join(part if isinstance(part, str) else match.group(part) or "" for part in self.replacement),
            ]
            end = match.end()
        found = "".join(parts) + name[end:]
        return found.lower() if self.case == "L" else found.upper() if self.case == "U" else found


class PrincipalRules:
    """The rules of one listener, in order; None stands for DEFAULT."""

    def __init__(self, text: str) -> None:
        """ConfigError for rules that cannot be read."""
        self._text = text
        self._rules: list[_Rule | None] = []
        position = 0
        while position < len(text.rstrip()):
            match = _RULE.match(text, position)
            if match is None:
                raise ConfigError(
                    f"{KEY} = {text[position:][:100]!r}: must be DEFAULT or RULE:pattern/replacement/, and L or U "
                    "after it; a / in the pattern is written \\/, and rules have commas between them"
                )
            self._rules.append(
                None if match["default"] else _rule(match["pattern"], match["replacement"], match["case"])
            )
            position = match.end()

    def of(self, distinguished_name: str) -> str | None:
        """The principal of the owner of that name, as `User:<name>`; None if no rule fits, and the owner is nobody. A
        rule that makes ANONYMOUS of it does not fit: a caller that has shown a certificate is not one that has shown
        none."""
        for rule in self._rules or (None,):
            found = distinguished_name if rule is None else rule.apply(distinguished_name)
            if found is not None:
                return None if found == ANONYMOUS_USER else f"{USER_TYPE}:{found}"
        return None

    def __repr__(self) -> str:
        return f"PrincipalRules({self._text!r})"


def _rule(pattern: str, replacement: str, case: str) -> _Rule:
    options = re2.Options()
    options.max_mem, options.log_errors = _MEMORY_BYTES_MAX, False
    try:
        compiled = re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if error.args else error
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise ConfigError(f"{KEY}: the pattern {pattern!r} is no regular expression of RE2: {text}") from None
    return _Rule(compiled, tuple(_parts(replacement, compiled)), case)


def _parts(replacement: str, pattern: Any) -> Iterator[str | int]:
    """The texts and groups of a replacement; ConfigError for what Java refuses, and for groups that are not there."""
    for found in _REFERENCE.finditer(replacement):
        escaped, digits, name, text = found["escaped"], found["digits"], found["name"], found["text"]
        if text is not None:
            yield text
        elif escaped is not None:
            yield escaped
        elif digits is not None:
            number, used = int(digits[0]), 1
            if number > pattern.groups:
                raise _wrong(replacement, f"its pattern has no group {number}, but {pattern.groups} in all")
            while used < len(digits) and (longer := 10 * number + int(digits[used])) <= pattern.groups:
                number, used = longer, used + 1
            yield number
            yield digits[used:]
        elif name is not None and name in pattern.groupindex:
            yield int(pattern.groupindex[name])
        elif name is not None:
            raise _wrong(replacement, f"its pattern has no group (?<{name}>…)")
        else:
            raise _wrong(replacement, r"write \$ for the character $, and \\ for \; $1 and ${name} are groups")


def _wrong(replacement: str, why: str) -> ConfigError:
    return ConfigError(f"{KEY}: the replacement {replacement[:100]!r} cannot be read: {why}")


def distinguished_name(certificate: x509.Certificate) -> str:
    """The subject in the form of RFC 2253, as Java prints it."""
    rdns = ["+".join(_attribute(attribute) for attribute in rdn) for rdn in reversed(list(certificate.subject.rdns))]
    return ",".join(rdns)


def _attribute(attribute: x509.NameAttribute[Any]) -> str:
    word = _JAVAS_NAMES.get(attribute.oid.dotted_string)
    if word is None or isinstance(attribute.value, bytes):
        return f"{attribute.oid.dotted_string}=#{_der(attribute).hex()}"
    return f"{word}={_escaped(attribute.value)}"


def _escaped(value: str) -> str:
    lead = len(value) - len(value.lstrip(" "))
    trail = len(value.rstrip(" "))
    parts = []
    for at, character in enumerate(value):
        is_outer_space = character == " " and (at < lead or at >= trail)
        if character == "\0":
            parts.append("\\00")
        else:
            parts.append(f"\\{character}" if character in _ESCAPED or is_outer_space else character)
    return "".join(parts)


def _der(attribute: x509.NameAttribute[Any]) -> bytes:
    """Tag, length and bytes of the value: the name of this attribute alone without what is around it."""
    inner = _content(_content(_content(x509.Name([attribute]).public_bytes())))
    return inner[_header_size(inner) + len(_content(inner)) :]


def _content(der: bytes) -> bytes:
    """The bytes in the first element."""
    start = _header_size(der)
    size = der[1] if der[1] < 0x80 else int.from_bytes(der[2:start], "big")
    return der[start : start + size]


def _header_size(der: bytes) -> int:
    return 2 if der[1] < 0x80 else 2 + (der[1] & 0x7F)


class Certified(NamedTuple):
    """The owner of a certificate, as that names it."""

    distinguished_name: str
    node: NodeIdentity | None
    """The node that the owner is, if it is one."""
    not_before_ms: int
    not_after_ms: int


def owner_of(pem_or_der: bytes) -> Certified:
    """The owner of a certificate."""
    load = x509.load_pem_x509_certificate if pem_or_der.startswith(b"-----") else x509.load_der_x509_certificate
    certificate = load(pem_or_der)
    begins, ends = ms_of(certificate.not_valid_before_utc), ms_of(certificate.not_valid_after_utc)
    return Certified(distinguished_name(certificate), identity_of(certificate), begins, ends)
