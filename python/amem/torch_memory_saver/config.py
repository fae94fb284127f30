# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What the variables and the C functions of torch_memory_saver set."""

import contextlib
import os
import tempfile
import threading

from amem_flags import flag

from .. import regions
from ..calls import call, encoded

DEFAULT_TAG = "default"


def is_on(name: str) -> bool:
    """A flag in the environment."""
    return bool(flag(name))


def kind_of(cpu_backup: bool, disk_backup: bool) -> int:
    """amemKind_t of a region. The original keeps contents on disk in a directory below /tmp by default."""
    if disk_backup and not cpu_backup:
        _need_backup_directory()
    return regions.kind_of("host" if cpu_backup else "disk" if disk_backup else None)


def _need_backup_directory() -> None:
    global _has_backup_directory
    if not _has_backup_directory and not os.environ.get("AMEM_BACKUP_DIR"):
        set_backup_directory(os.environ.get("TMS_DISK_BACKUP_DIR") or tempfile.gettempdir())
    _has_backup_directory = True


def set_backup_directory(path: str) -> None:
    """The directory is created if it does not exist."""
    global _has_backup_directory
    with contextlib.suppress(OSError):  # the next line says what is wrong with it
        os.makedirs(path, exist_ok=True)
    regions.set_backup_directory(path)
    _has_backup_directory = True


_has_backup_directory = False


class ThreadConfig(threading.local):
    """What the C functions of torch_memory_saver set for the calling thread: one entry of amem's stack of regions."""

    def __init__(self) -> None:
        self.tag = DEFAULT_TAG
        self.interesting = is_on("TMS_INIT_ENABLE")
        self.cpu_backup = is_on("TMS_INIT_ENABLE_CPU_BACKUP")
        self.disk_backup = is_on("TMS_INIT_ENABLE_DISK_BACKUP")
        self.cpu_backup_backend = os.environ.get("TMS_INIT_CPU_BACKUP_BACKEND", "pinned")
        self.is_open = False

    def apply(self) -> None:
        self.close()
        tag = encoded(self.tag) if self.interesting else None
        call("amemBeginRegion", tag, kind_of(self.cpu_backup or tag is None, self.disk_backup))
        self.is_open = True

    def close(self) -> None:
        if self.is_open:
            call("amemEndRegion")
        self.is_open = False
