"""Snakemake whose jobs are forked from one process that has imported the libraries: ``forked_programs.py WORDS …``.

Most jobs of a small study, and most of what a test starts, would spend most of their time on these imports. The process
that has done them, the server, is one for all workers of a test run, or for one Snakemake. The client is what a shell
then finds as ``python``, ``beamuq`` and ``snakemake``: it hands its words, folder, environment and streams to the
server, passes signals on, and ends with the status that comes back, or with 1 if the program is killed. Programs that
fetch, and all where there is no server (yet), start a Python of their own. What a job writes is the same either way;
Snakemake's benchmarks see the client alone.
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
IMPORTED += ("pyarrow.parquet", "snakemake.cli", "beamuq_study.plan.study_on_machine", "matplotlib.pyplot")
SERVE = "--serve"
CLIENT = """#!{python} -SEs
import json, os, signal, socket, sys
name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
words = words if name == "python" else ["-m", name, *words]
folder, _, program = words[0].rpartition("/")
forked = folder.endswith("/scripts") and not program.startswith("fetch")
if not forked and words[0] != "-c" and (words[0] != "-m" or words[1] not in ("beamuq", "snakemake")):
    os.execv({python!r}, [{python!r}, *words])
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
try:
    server.connect({address!r})
except OSError:
    os.execv({python!r}, [{python!r}, *words])
socket.send_fds(server, [json.dumps([words, os.getcwd(), dict(os.environ)]).encode()], [0, 1, 2])
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: server.send(b"%d" % number))
sys.exit(int(server.recv(9) or 1))
"""


def path() -> str:
    """The search path on which these three come first, then the environment's other programs."""
    return f"{folder()}:{Path(sys.executable).parent}:{os.environ['PATH']}"


def run_snakemake(words: list[str]) -> None:
    """Run Snakemake in this process, its jobs forked where the system can; the first ones may be there too early."""
    if sys.platform == "linux" and os.access(folder(wait=False) / "python", os.X_OK):
        os.environ["PATH"] = f"{folder(wait=False)}:{os.environ['PATH']}"
        sys.executable = str(folder(wait=False) / "python")
    sys.argv = ["snakemake", *words]
    runpy.run_module("snakemake", run_name="__main__", alter_sys=True)


@cache
def folder(*, wait: bool = True) -> Path:
    """The folder of the three programs, their server started; ``wait``: until it answers."""
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
            command = [sys.executable, __file__, SERVE, str(address), str(of)]
            server = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment, start_new_session=True)
            while wait and not address.exists():
                assert server.poll() is None, "the server of forked programs ended"
                time.sleep(0.01)
    return place


def serve(address: Path, of: Path) -> None:
    """Fork a program for each connection, as long as the process ``of`` is there."""
    gc.set_threshold(100_000)
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
    threading.Thread(target=_obey_client, args=(connection,), daemon=True).start()
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


def _obey_client(connection: socket.socket) -> None:
    while number := connection.recv(9):
        os.kill(os.getpid(), int(number))
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1] == SERVE:
        serve(Path(sys.argv[2]), Path("/proc", sys.argv[3], "exe"))  # a process that has ended has none, reaped or not
    else:
        run_snakemake(sys.argv[1:])
