"""The process at fault of an XID: NVML does not name it, the kernel's log does.

A line is `NVRM: Xid (PCI:0000:18:00): 31, pid=1234, name=python3, …`; older drivers write no name, some quote the pid.
"""

import os
import re
from typing import Final

XID: Final = re.compile(rb"NVRM: Xid \(PCI:([0-9a-fA-F:]+)\): (\d+)(?:, pid='?(\d+)'?)?")
KEPT_READS: Final = 5
"""The line may come somewhat before NVML's event."""
AT_ONCE: Final = 1000
"""Lines of one look; what is more is looked at by the next."""


class KernelLog:
    """`/dev/kmsg` from now on; nothing where it may not be read (`why` says so)."""

    def __init__(self, path: str) -> None:
        self._path, self._file = path, -1
        self._reads = 0
        self._pids: dict[tuple[str, int], tuple[int, int]] = {}
        self.why = ""

    def look(self) -> None:
        """Takes in the lines that came since the last look."""
        if self._file < 0 and not self.why:
            self._open()
        self._reads += 1
        self._pids = {key: kept for key, kept in self._pids.items() if self._reads - kept[1] < KEPT_READS}
        for _ in range(AT_ONCE if self._file >= 0 else 0):
            line = self._line()
            if line is None:
                return
            for bus, code, pid in XID.findall(line):
                if pid:
                    self._pids[bus.decode().lower(), int(code)] = int(pid), self._reads

    def pid(self, bus_id: str, code: int) -> int | None:
        """Of the process at fault of an XID just now; None when the log does not say."""
        found = self._pids.get((bus_id, code))
        return None if found is None else found[0]

    def _open(self) -> None:
        try:
            self._file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._file, 0, os.SEEK_END)
        except OSError as error:
            self.why = f"{error}: the process at fault of an XID is not known; run the agent as root"

    def _line(self) -> bytes | None:
        try:
            return os.read(self._file, 8192) or None
        except BlockingIOError:
            return None
        except BrokenPipeError:  # lines were overwritten before they were read
            return b""
        except OSError as error:
            self.close()
            self.why = f"{error}: the process at fault of an XID is not known"
            return None

    def close(self) -> None:
        """Lets go."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
