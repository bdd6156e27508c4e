# SPDX-License-Identifier: Apache-2.0
"""Stores of keys, by which ranks find each other: a TCP server of rank 0, or a folder of files. A value is written once
and read by any rank, which waits for it.

The TCP server listens on the first free port from MASTER_PORT on, since torchrun and torch.distributed have a store of
their own on MASTER_PORT itself. Its frames are lengths and bytes; nothing is unpickled.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import socket
import struct
import threading
import time
import urllib.parse
from typing import Protocol

from baracuda.distributed.environment import World
from baracuda.distributed.errors import RankTimeoutError, RendezvousError
from baracuda.errors import InvalidProblemError

_MAGIC = b"baracuda-store-1"
_PORTS = 32  # that are tried from the given one on
_HANDSHAKE = 1.0  # seconds
_LENGTH = struct.Struct("<I")
_MOST_BYTES = 1 << 26


class Store(Protocol):
    def set(self, key: str, value: bytes) -> None:
        """Write a value, once."""

    def get(self, key: str, timeout: float) -> bytes:
        """A value, after waiting until it is there."""

    def close(self, *, is_last: bool) -> None:
        """Release what the store holds; `is_last` where no rank needs it any more."""


def open_store(world: World, timeout: float) -> Store:
    """The store of a rendezvous, which rank 0 makes. RendezvousError after the time-out."""
    url = urllib.parse.urlsplit(world.rendezvous)
    if url.scheme == "file":
        return FileStore(pathlib.Path(urllib.parse.unquote(url.netloc + url.path)), world, timeout)
    if url.scheme == "tcp" and url.hostname and url.port:
        return TcpStore(url.hostname, url.port, world, timeout)
    raise InvalidProblemError(f"rendezvous is {world.rendezvous!r}, must be tcp://host:port or file:///folder")


class FileStore:
    """A file for each key, written under another name and renamed. The folder must be new: files that another run has
    left there would be taken for this one's.
    """

    def __init__(self, folder: pathlib.Path, world: World, timeout: float) -> None:
        self.folder = folder / "store"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with open(self.folder / f"rank.{world.rank}", "x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            raise RendezvousError(
                f"{folder} has a rank {world.rank} already: name a new folder for each run, and each rank once"
            ) from None
        except OSError as error:
            raise RendezvousError(f"{folder} cannot be used for the rendezvous: {error}") from error

    def set(self, key: str, value: bytes) -> None:
        path = self._path(key)
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        partial.write_bytes(value)
        os.replace(partial, path)

    def get(self, key: str, timeout: float) -> bytes:
        path, end, pause = self._path(key), time.monotonic() + timeout, 1e-4
        while True:
            try:
                return path.read_bytes()
            except FileNotFoundError:
                pass
            if time.monotonic() > end:
                raise RankTimeoutError(f"nobody has written {key!r} to {self.folder} after {timeout:g} s")
            time.sleep(pause)
            pause = min(2 * pause, 0.01)

    def close(self, *, is_last: bool) -> None:
        if is_last:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, key: str) -> pathlib.Path:
        return self.folder / urllib.parse.quote(f"key.{key}", safe="")


class TcpStore:
    """A connection to the server of rank 0."""

    def __init__(self, host: str, port: int, world: World, timeout: float) -> None:
        first = port + (os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True")
        ports = range(first, min(first + _PORTS, 65536))
        self._server = _Server(host, ports) if world.rank == 0 else None
        self._lock = threading.Lock()
        known = ports if self._server is None else range(self._server.port, self._server.port + 1)
        self._socket = _connect(host, known, world, timeout)

    def set(self, key: str, value: bytes) -> None:
        self._ask(b"S", key, value, 30.0)

    def get(self, key: str, timeout: float) -> bytes:
        found = self._ask(b"G", key, struct.pack("<d", timeout), timeout + 5.0)
        if found[:1] != b"1":
            raise RankTimeoutError(f"nobody has written {key!r} to the store of rank 0 after {timeout:g} s")
        return found[1:]

    def close(self, *, is_last: bool) -> None:
        self._socket.close()
        if self._server is not None:
            self._server.close()

    def _ask(self, command: bytes, key: str, value: bytes, timeout: float) -> bytes:
        with self._lock:
            try:
                self._socket.settimeout(timeout)
                for frame in (command, key.encode(), value):
                    _send(self._socket, frame)
                return _receive(self._socket)
            except (OSError, EOFError) as error:
                raise RendezvousError(f"the store of rank 0 cannot be reached: {error}") from error


class _Server:
    """Values by key; a thread for each connection."""

    def __init__(self, host: str, ports: range) -> None:
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()
        self._socket, self.port = _listen(host, ports)
        self._connections = [self._socket]
        threading.Thread(target=self._accept, daemon=True, name="baracuda store").start()

    def close(self) -> None:
        for each in list(self._connections):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError), connection:
            connection.settimeout(_HANDSHAKE)
            if _receive(connection) != _MAGIC:
                return
            _send(connection, _MAGIC)
            self._connections.append(connection)
            connection.settimeout(None)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while True:
                command, key, value = _receive(connection), _receive(connection).decode(), _receive(connection)
                if command == b"S":
                    with self._changed:
                        self._values.setdefault(key, value)
                        self._changed.notify_all()
                    _send(connection, b"")
                else:
                    (timeout,) = struct.unpack("<d", value)
                    with self._changed:
                        is_there = self._changed.wait_for(lambda key=key: key in self._values, timeout)  # type: ignore[misc]
                    _send(connection, b"1" + self._values[key] if is_there else b"0")


def _listen(host: str, ports: range) -> tuple[socket.socket, int]:
    reasons = "no port"
    for port in ports:
        try:
            return socket.create_server((host, port), backlog=1024), port
        except OSError as error:
            reasons = str(error)
    # The address may be one by which only others reach this host.
    for port in ports:
        with contextlib.suppress(OSError):
            return socket.create_server(("", port), backlog=1024), port
    raise RendezvousError(f"rank 0 cannot listen on {host}, ports {ports.start} to {ports.stop - 1}: {reasons}")


def _connect(host: str, ports: range, world: World, timeout: float) -> socket.socket:
    end, reason = time.monotonic() + timeout, "no answer"
    while time.monotonic() < end:
        for port in ports:
            try:
                connection = socket.create_connection((host, port), timeout=_HANDSHAKE)
            except OSError as error:
                reason = str(error)
                continue
            try:
                _send(connection, _MAGIC)
                answer = _receive(connection)
            except (OSError, EOFError) as error:  # a server of something else
                reason, answer = f"port {port}: {error}", b""
            if answer != _MAGIC:
                connection.close()
                continue
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        time.sleep(0.02)
    raise RendezvousError(
        f"rank {world.rank} has not found rank 0 at {host}, ports {ports.start} to {ports.stop - 1}, after "
        f"{timeout:g} s: {reason}"
    )


def _send(connection: socket.socket, frame: bytes) -> None:
    connection.sendall(_LENGTH.pack(len(frame)) + frame)


def _receive(connection: socket.socket) -> bytes:
    (length,) = _LENGTH.unpack(_receive_bytes(connection, _LENGTH.size))
    if length > _MOST_BYTES:
        raise EOFError(f"a frame of {length} bytes")
    return _receive_bytes(connection, length)


def _receive_bytes(connection: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        some = connection.recv(count - len(received))
        if not some:
            raise EOFError("the connection was closed")
        received += some
    return bytes(received)
