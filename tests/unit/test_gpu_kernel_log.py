"""The process at fault of an XID, from the kernel's log."""

from pathlib import Path

from warpmeter.producers.gpu.kernel_log import KEPT_READS, KernelLog

LINES = (
    "6,339,5140900,-;NVRM: Xid (PCI:0000:18:00): 31, pid=1234, name=python3, Ch 00000008, intr 00000000.\n"
    "6,340,5140901,-;NVRM: Xid (PCI:0000:1A:00): 13, pid='77', name=train, Graphics Exception\n"
    "6,341,5140902,-;NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.\n"
    "6,342,5140903,-;NVRM: Xid (PCI:0000:19:00): 45, pid=<unknown>, name=<unknown>\n"
)


def log(folder: Path) -> tuple[Path, KernelLog]:
    """A log that holds old lines, opened."""
    file = folder / "kmsg"
    file.write_text("6,1,1,-;NVRM: Xid (PCI:0000:18:00): 31, pid=5, name=old\n")
    opened = KernelLog(str(file))
    opened.look()
    return file, opened


def test_pids_are_those_of_the_lines_since_it_was_opened(tmp_path: Path) -> None:
    file, opened = log(tmp_path)
    assert opened.pid("0000:18:00", 31) is None
    with file.open("a") as more:
        more.write(LINES)
    opened.look()
    assert opened.pid("0000:18:00", 31) == 1234
    assert opened.pid("0000:1a:00", 13) == 77
    assert opened.pid("0000:18:00", 79) is None
    assert opened.pid("0000:19:00", 45) is None
    for _ in range(KEPT_READS):
        opened.look()
    assert opened.pid("0000:18:00", 31) is None
    opened.close()


def test_a_log_that_may_not_be_read_says_so_once(tmp_path: Path) -> None:
    opened = KernelLog(str(tmp_path / "none"))
    opened.look()
    opened.look()
    assert "run the agent as root" in opened.why
    assert opened.pid("0000:18:00", 31) is None
    opened.close()
