"""Arrow arrays over the memory of NumPy's, as they are.

`pa.array` would take them too, but asks first whether they are masked, or pandas': that imports `numpy.ma`, and pandas
where it is installed, at a program's first table. Not here: what is in the arrays (arrow.py, arrow_encode.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.errors import MessageTooLargeError

if TYPE_CHECKING:
    import numpy.typing as npt


def fixed_width(values: npt.NDArray[Any], kind: Any, nulls: npt.NDArray[np.bool_] | None = None) -> Any:
    """The numbers as an Arrow array of a type that is as wide; `nulls` are true where the value is null."""
    if values.dtype.itemsize * 8 != kind.bit_width:
        raise TypeError(f"{values.dtype} is not as wide as {kind}")
    valid = None if nulls is None else _bits(~nulls)
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(np.ascontiguousarray(values))])


def booleans(values: npt.NDArray[np.bool_]) -> Any:
    """An Arrow array of a bit each."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bits(values)])


def repeated(text: str, count: int) -> Any:
    """An Arrow array of the text, `count` times; MessageTooLargeError where its 32-bit offsets do not reach so far."""
    raw = text.encode()
    if len(raw) * count > np.iinfo(np.int32).max:
        raise MessageTooLargeError(f"{count} records do not fit one Arrow array; fetch fewer bytes")
    offsets = np.arange(0, len(raw) * (count + 1), len(raw), dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(raw * count))


def _bits(values: npt.NDArray[np.bool_]) -> Any:
    return pa.py_buffer(np.packbits(values, bitorder="little"))
