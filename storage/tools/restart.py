"""Makes the files of a log begin behind damage that is below its log start: all readable records stay.

Segments that end at or below the new beginning are removed, oldest first. If the damage is in the segment that holds
the new beginning, the good rest of that segment is copied to a segment of its own first:

    1  B.log.cleaned     the batches from offset B on, synced; a crash leaves a leftover that the next start removes
    2  older segments    removed, each durably before the next
    3  B.log.cleaned -> B.log, durable
    4  the damaged segment is removed

After a crash between 3 and 4 both segments hold the rest, and the damage is still there. The tool is run again, and
finds that B.log begins behind it. Not here: the indexes of B.log (`recover.py`), the choice of B (`truncation.py`).
"""

from __future__ import annotations

from penstock.errors import CorruptFileError
from storage.cleaner.cleaned_file import CleanedFile
from storage.disk.file_names import CLEANED_SUFFIX
from storage.disk.file_system import FileSystem
from storage.log_config import LogConfig
from storage.segment.segment import Segment
from storage.segment.segment_files import find_segments, tidy
from storage.tools.batch_walk import walk

COPY_BYTES = 1024 * 1024


def begin_at(fs: FileSystem, directory: str, offset: int, log_start_offset: int) -> None:
    """`offset`: a batch or a segment begins there, nothing from there on is damaged, and the log start is not below."""
    interval_bytes = LogConfig().index_interval_bytes
    segments = find_segments(fs, directory, interval_bytes, tidy(fs, directory))
    first = max((at for at, each in enumerate(segments) if each.base_offset <= log_start_offset), default=0)
    before, holder = segments[:first], segments[first]
    try:
        if holder.base_offset >= offset:  # whole, and it holds the log start: no copy is needed
            _remove(fs, directory, before)
            return
        rest = Segment(fs, directory, offset, interval_bytes)
        cleaned = rest.log_path + CLEANED_SUFFIX
        _copy_rest(fs, holder, offset, cleaned)
        _remove(fs, directory, before)
        fs.rename(cleaned, rest.log_path)
        _remove(fs, directory, [holder])
    finally:
        for segment in segments:
            segment.close()


def _remove(fs: FileSystem, directory: str, segments: list[Segment]) -> None:
    fs.fsync_dir(directory)  # the new first segment must be durable BEFORE these are removed
    for segment in segments:
        segment.delete()
        fs.fsync_dir(directory)


def _copy_rest(fs: FileSystem, segment: Segment, offset: int, path: str) -> None:
    """The batches of the segment from `offset` on."""
    file = segment.file()
    position = _position_of(segment, offset)
    copy = CleanedFile(fs, path, lambda count: None)
    try:
        while position < segment.size_bytes:
            piece = file.read(min(COPY_BYTES, segment.size_bytes - position), position)
            copy.write(piece)
            position += len(piece)
        copy.finish()
    except BaseException:
        copy.discard()
        raise


def _position_of(segment: Segment, offset: int) -> int:
    """The position of the good batch at this offset; the last of several, because the base offset is outside the
    checksum."""
    position = None
    for seen in walk(segment.file(), lambda count: None):
        if seen.header is not None and not seen.problem and seen.header.base_offset == offset:
            position = seen.position
    if position is None:
        raise CorruptFileError(segment.log_path, 0, f"no good batch begins at offset {offset}; look again")
    return position
