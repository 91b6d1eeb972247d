"""The PEM files of a client's TLS, read once when the client is made, and made ready for both transports.

A file that is missing, is no PEM, or does not fit the others is a ConfigError that names option and file. Without
`tls_ca` brokers are trusted by the authorities of the system, for gRPC as well, whose library would bring a list of its
own. An edge: it reads files. Not here: which options there are (options/config.py), and connecting.
"""

from __future__ import annotations

import codecs
import os
import ssl
from dataclasses import field
from pathlib import Path
from typing import Final

from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass

FilePath = str | os.PathLike[str]

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
"""The largest file, far above the bundle of a system's authorities."""


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """A client's options of TLS, by their names without `tls_`."""

    ca: FilePath | None = None
    cert: FilePath | None = None
    key: FilePath | None = None
    server_name: str | None = None


@dataclass(frozen=True, slots=True)
class Tls:
    """How a client's connections are encrypted."""

    context: ssl.SSLContext = field(repr=False)
    """The context of the transport in Python."""
    server_name: str | None
    """The name that certificates must have; None: the host of the address."""
    ca: bytes | None
    cert: bytes | None
    key: bytes | None = field(repr=False)


def tls_of(options: TlsOptions) -> Tls:
    """The TLS of a client's connections; ConfigError for a file that cannot be used."""
    ca = _system_authorities() if options.ca is None else file_bytes("tls_ca", options.ca)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # which checks names and certificates
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    if ca is None:
        context.load_default_certs()
    else:
        _trust(context, ca, options.ca)
    cert = key = None
    if options.cert is not None:
        cert = file_bytes("tls_cert", options.cert)
        key = cert if options.key is None else file_bytes("tls_key", options.key)
        _load_own(context, options.cert, options.key)
    return Tls(context, options.server_name, ca, cert, key)


def _system_authorities() -> bytes | None:
    """The system's authorities; None where the system has them in no single file: each library then finds its own."""
    path = ssl.get_default_verify_paths().cafile
    return None if path is None else file_bytes("the file of the system's authorities,", path)


def _trust(context: ssl.SSLContext, ca: bytes, given: FilePath | None) -> None:
    try:
        context.load_verify_locations(cadata=ca.decode("utf-8", "replace"))
    except (ssl.SSLError, ValueError):
        raise ConfigError(f"tls_ca={_text(given or '')!r} has no certificates in PEM form") from None


def _load_own(context: ssl.SSLContext, cert: FilePath, key: FilePath | None) -> None:
    def no_password() -> str:
        raise ConfigError(f"{where} is encrypted; give one that is not (openssl pkey -in FILE -out FILE)")

    where = f"tls_cert={_text(cert)!r}" if key is None else f"tls_key={_text(key)!r}"
    try:
        context.load_cert_chain(cert, key, no_password)
    except ssl.SSLError as error:
        if "mismatch" in str(error).lower():
            raise ConfigError(f"{where} is not the private key of tls_cert={_text(cert)!r}") from None
        missing = "no certificate and private key" if key is None else f"no private key, or {_text(cert)!r} none"
        raise ConfigError(f"{where} has {missing} in PEM form") from None


def file_bytes(option: str, path: FilePath) -> bytes:
    """The file of an option, without the mark of UTF-8 that some editors put first; ConfigError why it cannot be
    read."""
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"{option}={_text(path)!r} cannot be read: {why}") from None
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"{option}={_text(path)!r} has more than {FILE_BYTES_MAX} bytes; give another file")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ConfigError(f"{option}={_text(path)!r} is UTF-16; save it as UTF-8")
    return data.removeprefix(codecs.BOM_UTF8)


def _text(path: FilePath) -> str:
    return os.fspath(path)
