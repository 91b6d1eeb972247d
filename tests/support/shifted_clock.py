"""A node whose calendar can be set: a small C library that is loaded before the C library, and adds what a file says.

Only the calendar moves, as with `date -s`; monotonic clocks do not. TLS inside gRPC's library sees it as Python does.
Needs a C compiler; elsewhere the test is skipped.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from penstock.local_nodes import node_process as process
from tests.support import nursery

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile long *ahead_s;

static long ahead(void) {
    if (!ahead_s) {
        int file = open(getenv("CALENDAR_FILE"), O_RDONLY);
        void *at = file < 0 ? MAP_FAILED : mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
        if (at == MAP_FAILED) return 0;
        ahead_s = at;
    }
    return *ahead_s;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += ahead();
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
    int failed = real(now, zone);
    if (!failed) now->tv_sec += ahead();
    return failed;
}

time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}
"""


class ShiftedClock:
    """The calendar of the nodes that were started `within`."""

    def __init__(self, directory: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("a calendar of one's own takes a C compiler (cc)")
        self._library, self._file = directory / "calendar.so", directory / "calendar"
        source = directory / "calendar.c"
        source.write_text(SOURCE)
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", self._library, source, "-ldl"], check=True)
        self.ahead(0)

    def ahead(self, seconds: int) -> None:
        """The calendar is so far ahead from now on."""
        with open(self._file, "r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("l", seconds))

    @contextmanager
    def within(self) -> Iterator[None]:
        """Node processes that are started within have this calendar. A fork of another process would not load it."""
        variables = {"LD_PRELOAD": str(self._library), "CALENDAR_FILE": str(self._file)}
        with patch.dict(os.environ, variables), patch.object(process, "start_process", nursery.executed):
            yield
