"""The users that a cluster begins with, beside the metadata log of a controller that was formatted with some.

    bootstrap-users    {"records": ["{\\"type\\":\\"UserScramCredential\\",…}", …], "data_version": 1, "crc32c": …}

Written once, by `penstock node format --add-scram`; it has no password, but what the metadata log has of one. When the
controller leads, and the cluster has never had a user, it sets these. The file stays and means nothing from then on, as
Kafka's bootstrap.checkpoint. Not here: that decision (`metadata/controller/users.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from metadata.codec import MalformedMetadataRecordError, decode_record, encode_record
from metadata.records import UserScramCredentialRecord
from penstock.errors import CorruptFileError
from storage.disk.atomic_file import read_text, write_atomically
from storage.disk.file_names import BOOTSTRAP_USERS
from storage.disk.file_system import FileSystem
from storage.disk.sealed_text import seal_json, unseal_json

VERSION: Final = 1


def write_bootstrap_users(fs: FileSystem, log_dir: str, users: Sequence[UserScramCredentialRecord]) -> None:
    """`log_dir` is that of the metadata log."""
    records = [encode_record(user).decode() for user in users]
    write_atomically(fs, f"{log_dir}/{BOOTSTRAP_USERS}", seal_json({"records": records, "data_version": VERSION}))


def read_bootstrap_users(fs: FileSystem, log_dir: str) -> tuple[UserScramCredentialRecord, ...]:
    """() without such a file; CorruptFileError for a damaged one."""
    path = f"{log_dir}/{BOOTSTRAP_USERS}"
    text = read_text(fs, path)
    if text is None:
        return ()
    found, _ = unseal_json(path, text)
    records = found.get("records")
    if found.get("data_version") != VERSION or not isinstance(records, list):
        raise CorruptFileError(path, 0, f"not of data_version {VERSION}")
    try:
        users = [decode_record(str(record).encode()) for record in records]
    except MalformedMetadataRecordError as error:
        raise CorruptFileError(path, 0, str(error)) from error
    return tuple(user for user in users if isinstance(user, UserScramCredentialRecord))
