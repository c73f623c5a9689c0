"""`python tests/relay.py FROM_ADDRESS TO_ADDRESS PORT`: hand TCP connections on; a port is elsewhere, too."""

import asyncio
import sys
from contextlib import suppress


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


async def relay(here: str, there: str, port: int) -> None:
    """Until it is ended."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(there, port)
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        writer.close()

    server = await asyncio.start_server(connected, here, port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(relay(sys.argv[1], sys.argv[2], int(sys.argv[3])))
