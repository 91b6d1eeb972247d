"""A private CA in a directory, and the certificates that it signs, each one PEM file with key and certificate.

    ca.pem              the CA's certificate: the truststore of every node and client
    ca.key              its private key; anybody with it can act as any node and any client
    node-1.pem          the keystore of node 1
    client-anna.pem     that of a client

A node's certificate has its hosts, and names that say which node of which cluster it is (node_identity.py); a client's
has its name and can be no server's. Keys are on the curve P-256, which every TLS library takes. A file with a private
key can be read by its owner alone, from the moment in which it is made. A file is written whole or not at all, so a
node that looks while one is renewed sees the old or the new one. Not here: how a node reads them (broker/tls/).
"""

from __future__ import annotations

import ipaddress
import os
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.certs.node_identity import NODE_DOMAIN, NODE_ID_MAX, NodeIdentity, is_cluster_id
from penstock.durable import sync_all
from penstock.errors import ConfigError
from penstock.ids import system_ids

CA_FILE: Final = "ca.pem"
CA_KEY_FILE: Final = "ca.key"
CA_DAYS: Final = 3_650
DAYS: Final = 365
DAYS_MAX: Final = 36_500
NAME_CHARACTERS_MAX: Final = 64
"""Limit for the common name in a certificate (RFC 5280)."""
PRIVATE, PUBLIC = 0o600, 0o644
_EARLIER: Final = timedelta(hours=1)
"""A certificate is valid from a little before now, because clocks differ."""
_LABEL: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_*")


class Authority:
    """The CA of one cluster."""

    def __init__(self, directory: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.directory, self._certificate, self._key = directory, certificate, key

    # -- made and opened -----------------------------------------------------------------------------------------------

    @classmethod
    def create(cls, directory: str | Path, cluster_id: str = "", days: int = CA_DAYS) -> Authority:
        """A new one, for the cluster of that id or for a new id; ConfigError if the directory has one."""
        place = Path(directory)
        if cluster_id and not is_cluster_id(cluster_id):
            raise ConfigError(f"{cluster_id!r}: a cluster id has 22 letters, digits, '-' or '_'")
        _check_days(days)
        for name in (CA_FILE, CA_KEY_FILE):
            if (place / name).exists():
                raise ConfigError(f"{place / name}: there is a CA already; give another directory with --dir")
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Penstock"),
                x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, cluster_id or system_ids().new_id()),
                x509.NameAttribute(NameOID.COMMON_NAME, "Penstock CA"),
            ]
        )
        usage = _key_usage(is_ca=True)
        builder = _builder(subject, subject, key, days, None).add_extension(x509.BasicConstraints(True, 0), True)
        certificate = builder.add_extension(usage, True).sign(key, hashes.SHA256())
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"{place}: cannot be made ({error.strerror}); give another directory with --dir"
            ) from None
        write_file(place / CA_KEY_FILE, _key_pem(key), PRIVATE)
        write_file(place / CA_FILE, certificate.public_bytes(Encoding.PEM), PUBLIC)
        return cls(place, certificate, key)

    @classmethod
    def open(cls, directory: str | Path) -> Authority:
        """Opens the CA in a directory; ConfigError if the directory has no CA, or it is damaged."""
        place = Path(directory)
        try:
            certificate = x509.load_pem_x509_certificate((place / CA_FILE).read_bytes())
            key = load_pem_private_key((place / CA_KEY_FILE).read_bytes(), None)
        except FileNotFoundError as error:
            raise ConfigError(f"{error.filename}: no such file; make a CA with `penstock certs init`") from None
        except OSError as error:
            raise ConfigError(f"{error.filename}: cannot be read ({error.strerror}); check owner and mode") from None
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"{place}: its CA is damaged ({_line(error)}); restore {CA_FILE} and {CA_KEY_FILE}"
            ) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise ConfigError(f"{place}: {CA_KEY_FILE} is not the key of {CA_FILE}; restore both from one copy")
        return cls(place, certificate, key)

    @property
    def cluster_id(self) -> str:
        """The cluster whose nodes it vouches for."""
        found = self._certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)
        text = str(found[0].value) if found else ""
        if not is_cluster_id(text):
            raise ConfigError(f"{self.directory / CA_FILE}: was not made by `penstock certs init`; it names no cluster")
        return text

    @property
    def not_after(self) -> datetime:
        return self._certificate.not_valid_after_utc

    # -- certificates --------------------------------------------------------------------------------------------------

    def node(self, node_id: int, hosts: Sequence[str], days: int = DAYS) -> Path:
        """The keystore of a node that is reached at these hosts, names or addresses; ConfigError if there is one."""
        if not 0 <= node_id <= NODE_ID_MAX:
            raise ConfigError(f"node id {node_id}: must be from 0 to {NODE_ID_MAX}")
        if not hosts:
            raise ConfigError("a node needs the hosts by which clients reach it; give each with --host")
        identity = NodeIdentity(self.cluster_id, node_id)
        names: list[x509.GeneralName] = [
            x509.UniformResourceIdentifier(identity.uri),
            x509.DNSName(identity.dns_name),
            *dict.fromkeys(map(_general_name, hosts)),
        ]
        return self._issue(f"node-{node_id}", f"node-{node_id}", names, days)

    def client(self, name: str, days: int = DAYS) -> Path:
        """The keystore of a client, whose principal is User:CN=name; ConfigError if there is one."""
        if not name or len(name) > NAME_CHARACTERS_MAX or not name.isprintable() or name.strip() != name or "/" in name:
            raise ConfigError(
                f"{name!r}: a client's name has 1 to {NAME_CHARACTERS_MAX} printable characters, and no /"
            )
        return self._issue(f"client-{name}", name, [], days)

    def renew(self, path: str | Path, days: int = DAYS) -> datetime:
        """Write the certificate of a file anew, with a new key and the names that it has; the time when it ends."""
        place = Path(path)
        old = read_certificates(place)[0]
        try:
            old.verify_directly_issued_by(self._certificate)  # else a stranger's file could get any names signed
        except (ValueError, TypeError, InvalidSignature):
            raise ConfigError(
                f"{place}: was signed by {old.issuer.rfc4514_string()}, and not by the CA in {self.directory}"
            ) from None
        try:
            names = list(old.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
        except x509.ExtensionNotFound:
            names = []
        data, ends = self._signed(old.subject, names, days)
        write_file(place, data, PRIVATE)
        return ends

    def certificates(self) -> list[Path]:
        """The keystores in its directory."""
        found = [path for kind in ("node", "client") for path in self.directory.glob(f"{kind}-*.pem")]
        return sorted(found, key=lambda path: (len(path.name), path.name))

    def _issue(self, file_name: str, common_name: str, names: list[x509.GeneralName], days: int) -> Path:
        path = self.directory / f"{file_name}.pem"
        if path.exists():
            raise ConfigError(f"{path}: is there already; `penstock certs renew {path}` writes it anew")
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        data, _ = self._signed(subject, names, days)
        write_file(path, data, PRIVATE)
        return path

    def _signed(self, subject: x509.Name, names: list[x509.GeneralName], days: int) -> tuple[bytes, datetime]:
        """Key and certificate; it ends with the CA's at the latest."""
        _check_days(days)
        if datetime.now(UTC) >= self.not_after:
            raise ConfigError(f"{self.directory / CA_FILE}: the CA's certificate has expired; make a new CA")
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._certificate.subject, key, days, self.not_after)
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if names else [])]
        signer = self._certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        builder = (
            builder.add_extension(x509.BasicConstraints(False, None), True)
            .add_extension(_key_usage(is_ca=False), True)
            .add_extension(x509.ExtendedKeyUsage(purposes), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(signer), False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return _key_pem(key) + certificate.public_bytes(Encoding.PEM), certificate.not_valid_after_utc

    def __repr__(self) -> str:
        return f"Authority({self.directory})"


def read_certificates(path: Path) -> list[x509.Certificate]:
    """All certificates of a PEM file, the owner's first; ConfigError if it has no certificate."""
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise ConfigError(f"{path}: has no certificate that can be read ({_line(error)})") from None


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int, last: datetime | None
) -> x509.CertificateBuilder:
    now = datetime.now(UTC).replace(microsecond=0)
    ends = now + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(ends if last is None else min(ends, last))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
    )


def _key_usage(*, is_ca: bool) -> x509.KeyUsage:
    """A CA signs certificates, everybody else connections."""
    return x509.KeyUsage(not is_ca, False, False, False, False, is_ca, is_ca, False, False)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        pass
    labels = host.removesuffix(".").split(".")
    if labels[-1].lower() == NODE_DOMAIN:
        raise ConfigError(
            f"{host!r}: names that end in .{NODE_DOMAIN} are those by which nodes know each other, and a node gets its"
            " own by its id; give a host by which clients reach the node"
        )
    if len(host) > 253 or not all(0 < len(label) <= 63 and _LABEL.issuperset(label) for label in labels):
        raise ConfigError(f"{host!r}: is neither the name of a host nor an address; give one without port with --host")
    if any("*" in label for label in labels[1:]):
        raise ConfigError(f"{host!r}: a * stands for the first part of a name alone; write *.example.com")
    return x509.DNSName(host.removesuffix("."))


def _check_days(days: int) -> None:
    if not 1 <= days <= DAYS_MAX:
        raise ConfigError(f"{days} days: must be from 1 to {DAYS_MAX}")


def write_file(path: Path, data: bytes, mode: int) -> None:
    """Whole or not at all; ConfigError if that cannot be. Owner and group of a file that is replaced are kept."""
    try:
        before = path.stat() if path.exists() else None
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # of mode 600
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), mode if before is None else before.st_mode & 0o777 & (0o640 | mode))
                if before is not None and (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(file.fileno(), before.st_uid, before.st_gid)
                sync_all(file.fileno())
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be written ({error.strerror}); check the directory's owner and room"
        ) from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def names_of(certificate: x509.Certificate) -> list[str]:
    """The names and addresses in it, as texts."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(name.value) for name in found]
