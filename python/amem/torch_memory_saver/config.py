# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""What the variables and the C functions of torch_memory_saver set."""

import contextlib
import os
import tempfile
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Tuple

from amem_flags import flag

from .. import regions
from ..library import why_off

DEFAULT_TAG = "default"


def is_on(name: str) -> bool:
    """A flag in the environment."""
    return bool(flag(name))


def backup_of(cpu_backup: bool, disk_backup: bool) -> Optional[regions.Backup]:
    """The backup of a region. The original keeps contents on disk in files below /tmp by default."""
    if disk_backup and not (cpu_backup or _has_backup_directory or os.environ.get("AMEM_BACKUP_DIR") or why_off()):
        set_backup_directory(os.environ.get("TMS_DISK_BACKUP_DIR") or tempfile.gettempdir())
    return "host" if cpu_backup else "disk" if disk_backup else None


def set_backup_directory(path: str) -> None:
    """Contents on disk are in files of this directory, tms_ and six other characters. The directory is created if it does not
    exist."""
    global _has_backup_directory
    with contextlib.suppress(OSError):  # the next line says what is wrong with it
        os.makedirs(path, exist_ok=True)
    regions.set_backup_directory(os.path.join(path, "tms_XXXXXX"))
    _has_backup_directory = True


_has_backup_directory = False


class Settings(NamedTuple):
    """What the functions tms_set_... set for a thread, by their names."""

    current_tag: str
    interesting_region: bool
    enable_cpu_backup: bool
    enable_disk_backup: bool
    cpu_backup_backend: str

    def region(self) -> Optional[Tuple[str, Optional[regions.Backup]]]:
        """The tag and the backup of memory that the thread allocates; None if it has no tag."""
        backup = backup_of(self.enable_cpu_backup, self.enable_disk_backup)
        return (self.current_tag, backup) if self.interesting_region else None


class ThreadConfig:
    """The settings of a thread. Where they differ from the region that it has opened, one of their own is open inside it."""

    def __init__(self, changed: Callable[[Settings], None]) -> None:
        on_cpu, on_disk = is_on("TMS_INIT_ENABLE_CPU_BACKUP"), is_on("TMS_INIT_ENABLE_DISK_BACKUP")
        backend = os.environ.get("TMS_INIT_CPU_BACKUP_BACKEND") or "pinned"
        self.settings = Settings(DEFAULT_TAG, is_on("TMS_INIT_ENABLE"), on_cpu, on_disk, backend)
        self.returned: Dict[bytes, Any] = {}  # memory of texts that C functions have returned
        self._changed = changed
        self._opened = self.settings  # of the region
        self._inner = contextlib.ExitStack()
        changed(self.settings)

    def set(self, wanted: Settings) -> None:
        """Raises AmemError if there can be no such region; then the settings are those of the open one."""
        region = wanted.region()
        if region != self.settings.region():
            self._inner.close()
            self.settings = self._opened
            if region != self._opened.region():
                inner = regions.disable() if region is None else regions.region(region[0], backup=region[1])
                self._inner.enter_context(inner)
        self.settings = wanted
        self._changed(wanted)

    @contextlib.contextmanager
    def within(self, settings: Settings) -> Iterator[None]:
        """In a region of this thread that has these settings."""
        before = self.settings, self._opened, self._inner
        self.settings = self._opened = settings
        self._inner = contextlib.ExitStack()
        self._changed(settings)
        try:
            yield
        finally:
            self._inner.close()
            self.settings, self._opened, self._inner = before
            self._changed(self.settings)
