"""Sets a log's directory aside: a durable rename to a name that says why, and that no partition can have.

    orders-3.<uuid>-delete      its topic was deleted; removed later
    orders-3.<uuid>-stray       nobody asked for it; kept
    orders-3.<uuid>-rotten      damaged, and built anew from its leader; kept

Not here: what the names look like (`file_names.py`), who is renamed and when (`log_manager.py`).
"""

from __future__ import annotations

import logging
import os

from penstock.types import TopicPartition
from storage.disk_errors import storage_error
from storage.file_names import DELETE_DIRECTORY_SUFFIX, set_aside_directory
from storage.file_system import FileSystem

_log = logging.getLogger(__name__)


def set_aside(fs: FileSystem, path: str, topic_partition: TopicPartition, suffix: str) -> str:
    """The new path, durable when it returns. KafkaStorageError when the disk failed: the old name may be there yet."""
    log_dir = os.path.dirname(path)
    target = f"{log_dir}/{set_aside_directory(topic_partition, suffix)}"
    try:
        fs.rename(path, target)
        fs.fsync_dir(log_dir)
    except OSError as error:
        raise storage_error("set aside", path, error) from error
    if suffix != DELETE_DIRECTORY_SUFFIX:
        _log.warning("%s: set aside as %s", topic_partition, target)
    return target
