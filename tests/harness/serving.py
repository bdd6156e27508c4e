# SPDX-License-Identifier: Apache-2.0
"""An HTTP server of an engine, on a free port of the loopback interface."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import uvicorn

from baracuda.serve.engine import Engine
from baracuda.serve.http import application


@contextlib.contextmanager
def serving(engine: Engine) -> Iterator[str]:
    """The address of a server that runs in a thread."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(application(engine), log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
