"""The endpoint on real sockets: clients as libkineto is, hostile ones; dynolog's port as its command speaks."""

import json
import os
import random
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.unit.test_kineto_wire import datagram, poll
from tests.wait import until
from warpmeter.producers.gpu.pause import Pause
from warpmeter.producers.kineto import endpoint, rpc
from warpmeter.producers.kineto.endpoint import Endpoint, TakenError
from warpmeter.producers.kineto.registry import Registry

SEED = 11
CONFIG = (
    "ACTIVITIES_LOG_FILE=/tmp/t.json\nPROFILE_START_TIME=0\nACTIVITIES_DURATION_MSECS=500\n"
    "PROFILE_REPORT_INPUT_SHAPES=false\nPROFILE_WITH_STACK=false\nPROFILE_WITH_FLOPS=false\nPROFILE_WITH_MODULES=false"
)


class Client:
    """A process as libkineto's IPC client: a socket of its own in the same folder, polls and waits for the reply."""

    def __init__(self, folder: Path, name: str = "dynoconfigclient-1") -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(folder / name))
        self.socket.settimeout(30)
        self._to = str(folder / endpoint.NAME)

    def ask(self, kinds: int = 3, job: int = 0, *pids: int) -> str:
        """One poll; what is wanted."""
        self.socket.sendto(poll(kinds, job, *(pids or (os.getpid(),))), self._to)
        reply = self.socket.recv(65536)
        assert datagram(b"req", reply[40:]) == reply
        return reply[40:].decode()

    def send(self, data: bytes) -> None:
        """Whatever it is."""
        self.socket.sendto(data, self._to)


@contextmanager
def serving(*sockets: socket.socket) -> Iterator[Registry]:
    """The endpoint at work on these sockets."""
    registry = Registry(lambda pid: (pid, os.getppid()), time.monotonic)
    served = Endpoint(list(sockets), registry, time.monotonic)
    stop = threading.Event()
    thread = threading.Thread(target=served.run, args=(stop,))
    thread.start()
    try:
        yield registry
    finally:
        stop.set()
        thread.join()
        served.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A path that is short enough for the sockets of clients."""
    with TemporaryDirectory(prefix="kineto-") as made:
        yield Path(made)


@pytest.fixture
def registry(folder: Path) -> Iterator[Registry]:
    with serving(endpoint.folder_socket(folder)) as found:
        yield found


def test_a_process_registers_is_handed_a_configuration_once_and_is_known_by_its_pid_on_the_host(
    folder: Path, registry: Registry
) -> None:
    client = Client(folder)
    assert client.ask(3, 0, 7, 1) == ""
    (known,) = registry.clients()
    assert (known.pid, known.own_pid, known.uid) == (os.getpid(), 7, os.getuid())
    assert registry.offer(os.getpid(), CONFIG) == "taken"
    assert client.ask(3, 0, 7, 1) == CONFIG
    assert client.ask(3, 0, 7, 1) == ""


def test_the_abstract_name_and_the_folder_share_one_registry(folder: Path) -> None:
    try:
        abstract = endpoint.abstract_socket()
    except TakenError:
        pytest.skip("another daemon holds the abstract name @dynolog on this host")
    with serving(abstract, endpoint.folder_socket(folder)) as registry:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            client.bind(b"\0dynoconfigclient-2\0")
            client.settimeout(30)
            client.sendto(poll(3, 5, os.getpid()), b"\0dynolog\0")
            assert client.recv(100) == datagram(b"req", b"")
        registry.offer(os.getpid(), CONFIG)
        assert Client(folder).ask(3, 5) == CONFIG
        with pytest.raises(TakenError, match=r"does dynolog or another agent run"):
            endpoint.abstract_socket()


def test_a_dead_daemons_socket_is_replaced_a_living_ones_and_a_file_are_not(folder: Path) -> None:
    path = folder / endpoint.NAME
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    dead.bind(str(path))
    dead.close()
    with serving(endpoint.folder_socket(folder)):
        assert path.stat().st_mode & 0o777 == 0o666
        with pytest.raises(TakenError):
            endpoint.folder_socket(folder)
    assert not path.exists()
    path.write_text("not ours")
    with pytest.raises(TakenError):
        endpoint.folder_socket(folder)
    assert path.read_text() == "not ours"


def test_whoever_writes_the_folder_otherwise_gets_no_answer_for_that_would_end_it(
    folder: Path, registry: Registry
) -> None:
    """PyTorch 2.15 calls std::terminate when an answer's path does not begin with its KINETO_IPC_SOCKET_DIR."""
    other = folder.with_name(f"{folder.name}-link")
    other.symlink_to(folder)
    try:
        client = Client(other)
        client.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            client.ask()
        assert registry.clients() == []
    finally:
        other.unlink()


def test_a_folder_that_is_too_long_for_sockets_or_not_writable_is_refused_with_what_to_do(folder: Path) -> None:
    with pytest.raises(TakenError, match="shorter path"):
        endpoint.folder_socket(folder / ("x" * 60))
    with pytest.raises(TakenError, match="a folder that this user may write"):
        endpoint.folder_socket(Path("/proc/nowhere"))


def test_a_folder_that_the_agent_makes_is_for_all_users(folder: Path) -> None:
    with serving(endpoint.folder_socket(folder / "made")):
        assert (folder / "made").stat().st_mode & 0o7777 == 0o1777


def descriptors_of(file: Path) -> int:
    """How often this process has a file open. What its other threads open and close meanwhile is theirs."""
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found += each.readlink() == file
    return found


def test_senders_without_an_address_and_descriptors_that_come_along_do_no_harm(
    folder: Path, registry: Registry, tmp_path: Path
) -> None:
    nameless = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    nameless.sendto(poll(3, 0, 1), str(folder / endpoint.NAME))
    client = Client(folder)
    with (tmp_path / "sent").open("w") as sent:
        for _ in range(50):
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("=ii", sent.fileno(), sent.fileno()))]
            client.socket.sendmsg([poll(3, 0, os.getpid())], rights, 0, str(folder / endpoint.NAME))
            assert client.socket.recv(100) == datagram(b"req", b"")
        assert descriptors_of(tmp_path / "sent") == 1
    assert [known.pid for known in registry.clients()] == [os.getpid()]


def test_ten_thousand_hostile_datagrams_get_no_answer_and_leave_nothing(folder: Path, registry: Registry) -> None:
    rng = random.Random(SEED)
    hostile, good = Client(folder, "hostile"), Client(folder, "good")
    assert good.ask() == ""
    for number in range(10_000):
        hostile.send(mutant(rng))
        if number % 500 == 0:
            assert good.ask() == ""
    assert good.ask() == ""
    assert [known.pid for known in registry.clients()] == [os.getpid()]
    hostile.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        hostile.socket.recv(65536)


def mutant(rng: random.Random) -> bytes:
    """A datagram that no client sends, whatever was changed of a good one."""
    good = bytearray(poll(3, 7, *range(1, rng.randrange(2, 12))))
    match rng.randrange(6):
        case 0:
            return rng.randbytes(rng.randrange(40))
        case 1:
            return bytes(good[: rng.randrange(len(good))])
        case 2:
            return bytes(good) + rng.randbytes(rng.randrange(1, 400))
        case 3:
            struct.pack_into("=Q", good, 0, rng.randrange(len(good) - 39, 1 << 64))
            return bytes(good)
        case 4:
            struct.pack_into("=i", good, 44, rng.choice([-1, 0, 1 << 30, -(1 << 31), 12, 200]))
            return bytes(good)
        case _:
            good[8:40] = rng.randbytes(32)
            return bytes(good)


# --- dynolog's port ----------------------------------------------------------------------------------------------


@contextmanager
def port(registry: Registry, address: str = "127.0.0.1", **door: Any) -> Iterator[int]:
    """The server at work; its port."""
    pause = Pause()
    counters = rpc.Counters(pause.pause, pause.resume)
    server = rpc.Server(rpc.Door(address, 0, **door), rpc.Dynolog(registry, counters, lambda: "id"))
    stop = threading.Event()
    thread = threading.Thread(target=server.run, args=(stop,))
    thread.start()
    try:
        yield server.port
    finally:
        stop.set()
        thread.join()


def call(at: int, sent: bytes) -> bytes:
    """What comes back on a connection of its own; half closed after sending, as a client that is done is not."""
    with socket.create_connection(("127.0.0.1", at), timeout=30) as connection:
        connection.sendall(sent)
        reply = b""
        with suppress(ConnectionResetError):
            while part := connection.recv(65536):
                reply += part
        return reply


def framed(text: str) -> bytes:
    return struct.pack("=i", len(text.encode())) + text.encode()


def traced(at: int, **changed: Any) -> Any:
    request = {"fn": "setKinetOnDemandRequest", "config": CONFIG, "pids": [0], "job_id": 0, "process_limit": 3}
    return json.loads(call(at, framed(json.dumps(request | changed)))[4:])


def test_the_bytes_that_dyno_sends_get_dynologs_bytes(registry: Registry, folder: Path) -> None:
    client = Client(folder)
    client.ask()
    escaped = CONFIG.replace("\n", "\\n")
    pid = os.getpid()
    with port(registry) as at:
        assert call(at, framed('{"fn":"getStatus"}')) == framed('{"status":1}')
        assert call(at, framed('{"fn":"getVersion"}'))[4:].startswith(b'{"version":"')
        assert call(
            at,
            framed(f'{{"fn":"setKinetOnDemandRequest","config":"{escaped}","job_id":0,"pids":[0],"process_limit":3}}'),
        ) == framed(
            f'{{"activityProfilersBusy":0,"activityProfilersTriggered":[{pid}],"eventProfilersBusy":0,'
            f'"eventProfilersTriggered":[],"processesMatched":[{pid}]}}'
        )
        assert call(at, framed('{"fn":"dcgmProfPause","duration_s":300}')) == framed('{"status":true}')
        assert call(at, framed('{"fn":"dcgmProfResume"}')) == framed('{"status":true}')
        assert call(at, framed('{"fn":"dcgmProfPause"}')) == framed('{"status":"failed"}')
        assert call(at, framed('{"fn":"setKinetOnDemandRequest"}')) == framed('{"status":"failed"}')
    assert client.ask() == f"{CONFIG}\n    REQUEST_TRACE_ID=id"


def test_who_is_asked_for_by_job_pid_or_ancestor_and_how_many_at_most(registry: Registry, folder: Path) -> None:
    client = Client(folder)
    client.ask(3, 42)
    pid = os.getpid()
    with port(registry) as at:
        assert traced(at)["processesMatched"] == []
        assert traced(at, pids=[1])["processesMatched"] == []
        assert traced(at, job_id=42, process_limit=0) | {"activityProfilersBusy": 0} == {
            "activityProfilersBusy": 0, "activityProfilersTriggered": [], "eventProfilersBusy": 0,
            "eventProfilersTriggered": [], "processesMatched": [pid],
        }  # fmt: skip
        assert traced(at, pids=[os.getppid()])["activityProfilersTriggered"] == [pid]
        again = traced(at, pids=[pid])
        assert (again["activityProfilersBusy"], again["activityProfilersTriggered"]) == (1, [])


@pytest.mark.parametrize(
    "sent",
    [
        b"", b"\x01", framed(""), framed("nothing"), framed("[]"), framed('{"fn":"rm"}'), framed("{}"),
        struct.pack("=i", -1), struct.pack("=i", 1 << 30), struct.pack("=i", 100) + b"{}", framed("[" * 100_000),
        framed('{"fn":["getStatus"]}'), struct.pack("=i", 5) + b"\xff\xfe\xfd\xfc\xfb",
    ],
)  # fmt: skip
def test_what_is_malformed_is_closed_without_a_word(registry: Registry, sent: bytes) -> None:
    with port(registry) as at:
        with socket.create_connection(("127.0.0.1", at), timeout=30) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                assert connection.recv(100) == b""
        assert call(at, framed('{"fn":"getStatus"}')) == framed('{"status":1}')


def test_thousands_of_bad_requests_and_clients_that_stall_stop_nobody(registry: Registry) -> None:
    rng, before = random.Random(SEED), threading.active_count()
    good = framed('{"fn":"getStatus"}')
    with port(registry) as at, ExitStack() as stack:
        for _ in range(rpc.CALLERS_MAX * 2):
            stalled = stack.enter_context(socket.create_connection(("127.0.0.1", at), timeout=30))
            with suppress(OSError):
                stalled.sendall(good[:3])
        until(lambda: _answers(at), "an answer beside clients that stall", 60.0)
    with port(registry) as at:
        for _ in range(2_000):
            broken = bytearray(good)
            for _ in range(rng.randrange(1, 4)):
                broken[rng.randrange(len(broken))] = rng.randrange(256)
            _throw(at, bytes(broken[: rng.randrange(len(broken) + 1)]))
        assert call(at, good) == framed('{"status":1}')
    assert threading.active_count() < 50 + before


def _throw(at: int, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", at), timeout=30) as connection, suppress(OSError):
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(100)


def _answers(at: int) -> bool:
    with suppress(OSError):
        return call(at, framed('{"fn":"getStatus"}')) == framed('{"status":1}')
    return False


@pytest.mark.parametrize("address", ["0.0.0.0", "10.0.0.1"])
def test_beyond_loopback_it_wants_tls_and_a_token(address: str) -> None:
    registry = Registry(lambda pid: (pid,), time.monotonic)
    answers: Callable[[], str] = lambda: "id"  # noqa: E731
    dynolog = rpc.Dynolog(registry, rpc.Counters(lambda _: None, lambda: None), answers)
    with pytest.raises(rpc.RpcError, match="rpc_tls_certificate"):
        rpc.Server(rpc.Door(address, 0), dynolog)


def test_with_a_token_nobody_else_is_answered(registry: Registry) -> None:
    with port(registry, token="secret") as at:
        assert call(at, framed('{"fn":"getStatus"}')) == b""
        assert call(at, framed('{"fn":"getStatus","token":"secret"}')) == framed('{"status":1}')


def test_beyond_loopback_it_is_asked_over_tls_with_the_token(registry: Registry, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run([*made, "-out", certificate, "-keyout", key], check=True, capture_output=True)
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(certificate, key)
    with port(registry, address="0.0.0.0", token="secret", tls=server_side) as at:
        trusting = ssl.create_default_context(cafile=str(certificate))
        with (
            socket.create_connection(("127.0.0.1", at), timeout=30) as plain,
            trusting.wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            connection.sendall(framed('{"fn":"getStatus","token":"secret"}'))
            assert connection.recv(100) == framed('{"status":1}')
        with suppress(OSError):
            assert call(at, framed('{"fn":"getStatus","token":"secret"}')) == b""


def test_a_port_that_is_taken_is_said_with_what_to_do(registry: Registry) -> None:
    dynolog = rpc.Dynolog(registry, rpc.Counters(lambda _: None, lambda: None), lambda: "id")
    with port(registry) as at, pytest.raises(rpc.RpcError, match="does dynolog run on this host"):
        rpc.Server(rpc.Door("127.0.0.1", at), dynolog)
