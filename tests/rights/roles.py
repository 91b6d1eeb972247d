"""The tools of each role that need no Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tests.rights.copying import COPIER
from tests.rights.matrix import Tool
from tests.rights.operating import MIRROR_SOURCE, MONITOR, TOPIC_ADMIN, USER_ADMIN
from tests.rights.reading import CONSUMER
from tests.rights.writing import PRODUCER

TOOLS: Final[Mapping[str, Sequence[Tool]]] = {
    "producer": PRODUCER,
    "consumer": CONSUMER,
    "producer+consumer": COPIER,
    "mirror-source": MIRROR_SOURCE,
    "monitor": MONITOR,
    "topic-admin": TOPIC_ADMIN,
    "user-admin": USER_ADMIN,
}
"""By role; two with a plus sign between are the rights of both."""
