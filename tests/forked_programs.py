"""A ``python``, a ``beamuq`` and a ``snakemake`` for tests, forked from a process that has imported the libraries once.

Most of what a test starts would spend most of its time on these imports. There is one such process, the server, for all
workers. The client is what a shell finds under the three names: it hands its words, folder, environment and streams to
the server and ends with the status that comes back, or with 1 if the program is killed. Steps that fetch, and scripts,
start a Python of their own.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from functools import cache
from pathlib import Path

IMPORTED = ("torch", "transformers.modeling_layers", "transformers.activations", "scipy.stats", "sklearn.metrics")
IMPORTED += ("pyarrow.parquet", "snakemake.cli", "beamuq_study.plan.study_on_machine")
CLIENT = """#!{python} -SEs
import json, os, socket, sys
name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
words = words if name == "python" else ["-m", name, *words]
folder, _, program = words[0].rpartition("/")
forked = folder.endswith("/scripts") and not program.startswith("fetch")
if not forked and words[0] != "-c" and (words[0] != "-m" or words[1] not in ("beamuq", "snakemake")):
    os.execv({python!r}, [{python!r}, *words])
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({address!r})
    socket.send_fds(server, [json.dumps([words, os.getcwd(), dict(os.environ)]).encode()], [0, 1, 2])
    sys.exit(int(server.recv(9) or 1))
"""


def path() -> str:
    """The search path on which these three come first, then the environment's other programs."""
    return f"{folder()}:{Path(sys.executable).parent}:{os.environ['PATH']}"


@cache
def folder() -> Path:
    """The folder of the three programs, their server started."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    place = Path(tempfile.gettempdir(), f"beamuq-{run or uuid.uuid4().hex}")
    place.mkdir(mode=0o700, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        address = place / "socket"
        if not address.exists():
            (place / "python").write_text(CLIENT.format(python=sys.executable, address=str(address)), encoding="utf-8")
            (place / "python").chmod(0o755)
            for name in ("beamuq", "snakemake"):
                (place / name).symlink_to("python")
            of = os.getppid() if run else os.getpid()  # what all workers end with
            environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
            command = [sys.executable, __file__, str(address), str(of)]
            server = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment, start_new_session=True)
            while not address.exists():
                assert server.poll() is None, "the server of forked programs ended"
                time.sleep(0.01)
    return place


def serve(address: Path, of: Path) -> None:
    """Fork a program for each connection, as long as the process ``of`` is there."""
    for name in IMPORTED:
        __import__(name)
    gc.freeze()  # what is imported is neither looked at nor copied again by any program
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"{address}.new")
    listener.listen(64)
    Path(f"{address}.new").rename(address)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the programs
    while of.exists():
        if not select.select([listener], [], [], 1.0)[0]:
            continue
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            _run(connection)
        connection.close()
    shutil.rmtree(address.parent)


def _run(connection: socket.socket) -> None:
    text, streams, _, _ = socket.recv_fds(connection, 2**20, 3)
    words, where, environment = json.loads(text)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.setsid()
    threading.Thread(target=_end_with_client, args=(connection,), daemon=True).start()
    os.chdir(where)
    # a test looks for the process of a program of a rule
    Path("/proc/self/comm").write_text(Path(words[0]).stem.rpartition(".")[2][:15], encoding="utf-8")
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = [where, *(path for path in environment.get("PYTHONPATH", "").split(":") if path)]
    sys.argv = words[1:] if words[0] == "-m" else words
    sys.executable = str(folder() / "python") if words[1:2] == ["snakemake"] else sys.executable
    status: object = 0
    try:
        if words[0] == "-m":
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        elif words[0] == "-c":
            exec(words[1], {"__name__": "__main__"})
        else:
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as stop:
        status = stop.code or 0
    except BaseException:  # as Python does at its end
        sys.excepthook(*sys.exc_info())
        status = 1
    if isinstance(status, str):
        print(status, file=sys.stderr)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    connection.send(str(status if isinstance(status, int) else 1).encode())
    os._exit(0)


def _end_with_client(connection: socket.socket) -> None:
    connection.recv(1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path("/proc", sys.argv[2]))
