"""A gRPC service on a Unix socket of the node, asked for one answer at a time.

gRPC is HTTP/2, which nothing light speaks and nobody should write by hand: grpcio does (the extra `kubernetes`), and is
imported only once there is a socket to ask, so that other hosts never load it.
"""

from pathlib import Path
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from warpmeter.producers.source import SourceError

Answer = TypeVar("Answer", bound=Message)

ANSWER_S: Final = 3.0
ANSWER_MAX: Final = 16 << 20
"""As the kubelet's own bound of an answer."""
NO_GRPC: Final = "{path} is there, and grpcio is not installed to ask it; pip install 'warpmeter[kubernetes]'"


class Peer:
    """The service; `path`: its socket, which may come and go."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._channel: Any = None

    @property
    def there(self) -> bool:
        """Whether there is somebody to ask."""
        return self._channel is not None or Path(self._path).exists()

    def ask(self, method: str, request: Message, answer: type[Answer]) -> Answer:
        """Call a method, as `/package.Service/Method`; raises SourceError when it does not answer, with why."""
        try:
            import grpc
        except ModuleNotFoundError as error:
            raise SourceError("unsupported", NO_GRPC.format(path=self._path)) from error
        if self._channel is None:
            options = [
                ("grpc.max_receive_message_length", ANSWER_MAX),
                ("grpc.enable_http_proxy", 0),
                ("grpc.use_local_subchannel_pool", 1),  # else it gets the failed connection of the channel before
            ]
            self._channel = grpc.insecure_channel(f"unix:{self._path}", options)
        call = self._channel.unary_unary(
            method, request_serializer=type(request).SerializeToString, response_deserializer=answer.FromString
        )
        try:
            said: Answer = call(request, timeout=ANSWER_S)
        except grpc.RpcError as error:
            self.close()  # the next call looks for the socket anew
            raise SourceError("failed", f"{self._path}: {_said(error)}; see the log of who serves it") from error
        return said

    def close(self) -> None:
        """Close the connection."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None


def _said(error: Any) -> str:
    return f"{error.code().name}: {error.details()}"
