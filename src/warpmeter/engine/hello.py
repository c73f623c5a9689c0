"""clickhouse-go's first question over HTTP, which Grafana's plugin asks too, answered so that it goes on well.

The client asks `SELECT displayName(), version(), revision(), timezone()` and from then on reads `Native` blocks as a
server of that revision writes them to a client of `client_protocol_version`: with a block header, and a flag a
column. chDB writes `Native` as HTTP without that parameter has it, which is revision 0 to this client. So the answer
to this one question says revision 0; the answer itself comes in the form that the client reads before it knows.
"""

from typing import Final

from warpmeter.engine.answer import Server
from warpmeter.engine.sqltext import Token, lexemes

_QUESTION: Final = "SELECT displayName(),version(),revision(),timezone()"
_CUSTOM_SERIALIZATION: Final = 54454  # DBMS_MIN_REVISION_WITH_CUSTOM_SERIALIZATION
_BLOCK_INFO: Final = b"\x01\x00\x02\xff\xff\xff\xff\x00"  # not overflows, no bucket


def is_hello(text: bytes) -> bool:
    """Whether this statement is that question."""
    if b"displayName" not in text or len(text) > 200:
        return False
    found = [each.text for each in lexemes(text) if each.token in (Token.WORD, Token.SYMBOL)]
    return found[:1] == ["SELECT"] and "SELECT " + "".join(found[1:]) == _QUESTION


def hello(server: Server, protocol_version: int) -> bytes:
    """One `Native` block of one row, as a server writes it to a client of this protocol version (0: none given)."""
    flag = b"\x00" if protocol_version >= _CUSTOM_SERIALIZATION else b""
    columns = (
        ("displayName()", "String", _string(server.name)),
        ("version()", "String", _string(server.version)),
        ("revision()", "UInt32", b"\x00\x00\x00\x00"),
        ("timezone()", "String", _string(server.timezone)),
    )
    body = b"".join(_string(name) + _string(kind) + flag + value for name, kind, value in columns)
    return _BLOCK_INFO * (protocol_version > 0) + b"\x04\x01" + body


def _string(text: str) -> bytes:
    raw = text.encode()[:127]  # so that its length is one byte
    return bytes((len(raw),)) + raw
