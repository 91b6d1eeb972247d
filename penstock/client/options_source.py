"""penstock/client/cluster/typed_options.py, made from the table of options:
`python -m penstock.client.options_source > penstock/client/cluster/typed_options.py`.

Type checkers and editors read only what is written down, so the table (cluster/config.py) is written down for them as
TypedDicts, with the meaning of each option below it. A test holds the file against this.
"""

from __future__ import annotations

import dataclasses
import sys
import textwrap
from typing import Any

from penstock.client.cluster.config import AdminConfig, ConsumerConfig, ProducerConfig

LINE_COLUMNS = 120
HEAD = '''"""The options of each client for type checkers and editors: `**options: Unpack[ProducerOptions]`.

Made from penstock/client/cluster/config.py by
`python -m penstock.client.options_source > penstock/client/cluster/typed_options.py`; do not edit by hand.
"""

from __future__ import annotations

from typing import TypedDict

from penstock.client.cluster.config import Acks, CompressionType, OffsetReset, PartitionerFunction
'''


def typed_options() -> str:
    """The whole file."""
    producer, consumer, admin = (
        {field.name: field for field in dataclasses.fields(config)}
        for config in (ProducerConfig, ConsumerConfig, AdminConfig)
    )
    common = {name: field for name, field in admin.items() if name in producer}
    parts = [HEAD, _typed_dict("ClientOptions", "TypedDict", "Options of every client.", common)]
    for client, fields in (("Producer", producer), ("Consumer", consumer), ("Admin", admin)):
        own = {name: field for name, field in fields.items() if name not in common}
        about = f"Options of {client} and Async{client}."
        parts.append(_typed_dict(f"{client}Options", "ClientOptions", about, own))
    return "".join(parts)


def _typed_dict(name: str, base: str, about: str, fields: dict[str, dataclasses.Field[Any]]) -> str:
    lines = [f"\n\nclass {name}({base}, total=False):", f'    """{about}"""', ""]
    for field in fields.values():
        lines.append(f"    {field.name}: {field.type}")
        lines += textwrap.wrap(
            f'"""{field.metadata["doc"]}"""', LINE_COLUMNS, initial_indent=" " * 4, subsequent_indent=" " * 4
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(typed_options())
