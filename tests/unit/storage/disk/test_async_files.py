"""Files for the event loop: aiofiles on the machine's disk, and the fake of the tests, keep the same promises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from storage.disk.async_files import AioFiles, AsyncFiles
from storage.disk.file_system import OsFileSystem
from tests.support.files_in_memory import FilesInMemory

Make = Callable[[], AsyncFiles]


@pytest.fixture(params=["machine", "memory"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    if request.param == "memory":
        yield lambda: FilesInMemory(OsFileSystem())
        return
    with ThreadPoolExecutor(1) as threads:
        yield lambda: AioFiles(threads)


def read(make: Make, path: Path, bytes_max: int = 100) -> bytes:
    async def main() -> bytes:
        return await make().read_start(str(path), bytes_max)

    return asyncio.run(main())


def test_a_file_is_read_whole_or_up_to_the_limit(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_bytes(b"")
    assert read(make, path) == b""
    path.write_bytes(bytes(range(100)))
    assert read(make, path) == bytes(range(100))
    assert read(make, path, 7) == bytes(range(7))


def test_what_cannot_be_read_is_the_machines_error(make: Make, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(make, tmp_path / "gone")
    with pytest.raises(IsADirectoryError):
        read(make, tmp_path)


def test_the_loop_goes_on_while_a_disk_does_not_answer(tmp_path: Path) -> None:
    """A named pipe without a writer is such a disk."""
    import os

    os.mkfifo(tmp_path / "pipe")

    async def main() -> bytes:
        with ThreadPoolExecutor(1) as threads:
            reading = asyncio.create_task(AioFiles(threads).read_start(str(tmp_path / "pipe"), 100))
            for _ in range(3):
                await asyncio.sleep(0)
            assert not reading.done()
            (tmp_path / "pipe").write_bytes(b"at last")
            return await reading

    assert asyncio.run(main()) == b"at last"
