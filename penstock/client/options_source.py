"""penstock/client/options/typed_options.py, made from the table of options:
`python -m penstock.client.options_source > penstock/client/options/typed_options.py`.

Type checkers and editors read only what is written down, so the table (options/config.py) is written down for them as
TypedDicts, with the meaning of each option below it. A test holds the file against this.
"""

from __future__ import annotations

import dataclasses
import sys
import textwrap
from typing import Any

from penstock.client.options.config import AdminConfig, ConsumerConfig, ProducerConfig
from penstock.config_keys import keys_of

LINE_COLUMNS = 120
HEAD = '''"""The options of each client for type checkers and editors: `**options: Unpack[ProducerOptions]`.

Made from penstock/client/options/config.py by
`python -m penstock.client.options_source > penstock/client/options/typed_options.py`; do not edit by hand.
"""

from __future__ import annotations

from typing import TypedDict

from penstock.client.options.config import (
    Acks,
    CompressionType,
    IsolationLevel,
    OffsetReset,
    PartitionerFunction,
    SaslMechanism,
)
from penstock.client.wire.tls_files import FilePath
from penstock.client.wire.token_login import TokenProvider
'''


def typed_options() -> str:
    """The whole file."""
    common = [name for name in keys_of(AdminConfig) if name in keys_of(ProducerConfig)]
    parts = [HEAD, _typed_dict("ClientOptions", "TypedDict", "Options of every client.", AdminConfig, common)]
    for client, config in (("Producer", ProducerConfig), ("Consumer", ConsumerConfig), ("Admin", AdminConfig)):
        own = [name for name in keys_of(config) if name not in common]
        about = f"Options of {client} and Async{client}."
        parts.append(_typed_dict(f"{client}Options", "ClientOptions", about, config, own))
    return "".join(parts)


def _typed_dict(name: str, base: str, about: str, config: Any, options: list[str]) -> str:
    lines = [f"\n\nclass {name}({base}, total=False):", f'    """{about}"""', ""]
    keys, types = keys_of(config), {field.name: field.type for field in dataclasses.fields(config)}
    for option in options:
        lines.append(f"    {option}: {types[option]}")
        lines += textwrap.wrap(
            f'"""{keys[option].doc}"""', LINE_COLUMNS, initial_indent=" " * 4, subsequent_indent=" " * 4
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(typed_options())
