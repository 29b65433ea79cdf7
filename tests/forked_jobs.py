"""A ``python`` for the jobs of tests, forked from a process that has imported torch and transformers once.

A job of a tiny model would spend most of its time on these imports. Fetching starts a Python of its own. The client is
what a job's shell finds as ``python``: it hands its words, folder, environment and streams to the server and ends with
the status that comes back, or with 1 if the job is killed.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

IMPORTED = ("pandas", "pyarrow.parquet", "torch", "transformers.modeling_layers", "transformers.activations")
CLIENT = """#!{python} -SEs
import json, os, socket, sys
words = sys.argv[1:]
if words[:2] != ["-m", "beamuq.steps"] or words[2].startswith("fetch"):
    os.execv({python!r}, [{python!r}, *words])
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({address!r})
    socket.send_fds(server, [json.dumps([words[2:], os.getcwd(), dict(os.environ)]).encode()], [0, 1, 2])
    sys.exit(int(server.recv(9) or 1))
"""


def path() -> str:
    """The search path on which this ``python`` comes first, then the environment's other programs."""
    return f"{_folder()}:{Path(sys.executable).parent}:{os.environ['PATH']}"


@cache
def _folder() -> Path:
    """The folder of the client, its server started: one for each process that runs tests."""
    place = Path(tempfile.mkdtemp(prefix="jobs-"))
    address, client = place / "socket", place / "python"
    client.write_text(CLIENT.format(python=sys.executable, address=str(address)), encoding="utf-8")
    client.chmod(0o755)
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen([sys.executable, __file__, str(address)], stdin=subprocess.PIPE, env=environment)
    atexit.register(server.kill)
    while not address.exists():
        assert server.poll() is None, "the server of forked jobs ended"
        time.sleep(0.01)
    return place


def serve(address: str) -> None:
    """Fork a job for each connection, until the process that started the server ends."""
    for name in IMPORTED:
        __import__(name)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"{address}.new")
    listener.listen(64)
    Path(f"{address}.new").rename(address)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the jobs
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _run(connection)
        connection.close()


def _run(connection: socket.socket) -> None:
    text, streams, _, _ = socket.recv_fds(connection, 2**20, 3)
    words, where, environment = json.loads(text)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.chdir(where)
    Path("/proc/self/comm").write_text(words[0])  # by which a test finds it
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = [path for path in environment.get("PYTHONPATH", "").split(":") if path]
    sys.argv = ["beamuq.steps", *words]
    status: object = 0
    try:
        runpy.run_module("beamuq.steps", run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        status = stop.code or 0
    except BaseException:  # as Python does at its end
        sys.excepthook(*sys.exc_info())
        status = 1
    if isinstance(status, str):
        print(status, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    connection.send(str(status if isinstance(status, int) else 1).encode())
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
