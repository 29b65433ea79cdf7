"""What earlier runs of the command found when they checked a model, beside the model.

The check (:mod:`beamuq.decoding.self_check`) takes a second, and finds the same as long as nothing
has changed that it depends on. So the command writes down what it found under a hash of all of
that, and checks again wherever the hash is another. Only the command does: in a program of someone
else a function may have been replaced in memory, of which no file tells. And only for a fetched
model on the CPU, whose files are known by their hashes.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from beamuq.errors import BeamUQError
from beamuq.io import write_text
from beamuq.models.model_folder import model_identity, read_manifest
from beamuq.own_program import PROGRAM

if TYPE_CHECKING:
    import torch

    from beamuq.decoding.self_check import SelfCheck

FILE = ".self_check.json"
MOST_KEPT = 16
"""Results of a model, the newest: each set of packages, options and variables has its own."""
MOST_BYTES = 1_000_000
_SESSION = frozenset(
    {
        *("_", "PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES", "TERM", "WINDOWID", "DISPLAY"),
        *("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY", "SSH_AUTH_SOCK", "XDG_SESSION_ID"),
        *("TMUX", "TMUX_PANE", "DBUS_SESSION_BUS_ADDRESS", "BEAMUQ_API_KEY", "HF_TOKEN"),
    }
)
"""Variables that say where a person sits, or that are secret; any other counts."""
_PROCESSOR = (
    *("vendor_id", "cpu family", "model", "model name", "stepping", "microcode", "flags"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features"),
)
"""The lines of ``/proc/cpuinfo`` that tell one processor from another."""


def checked_before(model: Any, folder: Path, *, device: torch.device) -> SelfCheck:
    """The result of the check of ``model``, loaded from ``folder``, maybe of an earlier run.

    Raises BeamUQError as :func:`~beamuq.decoding.self_check.checked`.
    """
    from beamuq.decoding.self_check import checked, remember

    is_fetched = read_manifest(folder) is not None
    if not PROGRAM.is_command or device.type != "cpu" or not is_fetched:
        return checked(model)
    key = _key(model, folder)  # before the check, which imports more
    results = _read(folder / FILE)
    if key in results:
        remember(model, results[key])
        return results[key]
    results[key] = checked(model)
    newest = dict([*results.items()][-MOST_KEPT:])
    _write(folder / FILE, newest)
    return results[key]


def _read(path: Path) -> dict[str, SelfCheck]:
    """Results by key; empty: there is no such file, or another."""
    from beamuq.decoding.self_check import RUNNERS, SelfCheck

    results: dict[str, SelfCheck] = {}
    with suppress(OSError, ValueError):
        if path.is_file() and path.stat().st_size <= MOST_BYTES:  # a FIFO would never end
            results = TypeAdapter(dict[str, SelfCheck]).validate_json(path.read_bytes())
    return {key: result for key, result in results.items() if result.path in RUNNERS}


def _write(path: Path, results: dict[str, SelfCheck]) -> None:
    """Write results for later runs, where that can be: else each run checks."""
    if path.exists() and not path.is_file():
        return  # a FIFO, which nobody reads
    written = {key: asdict(result) for key, result in results.items()}
    with suppress(BeamUQError):
        write_text(path, json.dumps(written, indent=1) + "\n")


def _key(model: Any, folder: Path) -> str:
    """A hash of all that the check of ``model`` depends on."""
    facts = {"model": facts_of_model(model, folder), "process": facts_of_process()}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def facts_of_model(model: Any, folder: Path) -> dict[str, object]:
    """The model's files by their hashes, and how it was loaded from them."""
    return {
        "content": model_identity(folder)["content"],
        "class": f"{type(model).__module__}.{type(model).__qualname__}",
        "types": sorted({str(parameter.dtype) for parameter in model.parameters()}),
        "attention": str(getattr(model.config, "_attn_implementation", "")),
    }


def facts_of_process() -> dict[str, object]:
    """What computes: machine, Python, torch with its settings, packages, code, variables."""
    return {
        "machine": [platform.platform(), platform.machine(), *_processor()],
        "python": [sys.version, *sys.flags],
        "torch": _settings_of_torch(),
        "packages": _installed_packages(),
        "code": _stamps([*_module_files(), *_mapped_libraries()]),
        "environment": {name: value for name, value in os.environ.items() if name not in _SESSION},
    }


def _processor() -> list[str]:
    """What tells the first processor from another kind; empty where the system does not say."""
    path = Path("/proc/cpuinfo")
    if not path.is_file():
        return [platform.processor()]
    first = path.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    return [line for line in first.splitlines() if line.partition(":")[0].strip() in _PROCESSOR]


def _settings_of_torch() -> list[str]:
    """How torch was built, and what it was told: threads, precision, kernels."""
    import torch

    settings = (
        torch.__version__,
        torch.__config__.show(),
        torch.__config__.parallel_info(),
        torch.get_default_dtype(),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.mkldnn.enabled,
        torch.is_autocast_enabled("cpu"),
    )
    return [str(setting) for setting in settings]


def _installed_packages() -> list[str]:
    """Name and version of each package that could be imported, as its folder says them."""
    folders = [Path(name) for name in sys.path if name]
    members = [path.name for folder in folders if folder.is_dir() for path in folder.iterdir()]
    return sorted(name for name in members if name.endswith(("-info", ".egg-link")))


def _module_files() -> list[str]:
    """The files of all modules that are loaded."""
    files: list[str] = []
    for module in list(sys.modules.values()):
        # not by getattr, at which some modules import others
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str):
            files.append(file)
    return files


def _mapped_libraries() -> list[str]:
    """The shared libraries of this process; empty where the system does not list them."""
    path = Path("/proc/self/maps")
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    mapped = {line.partition("/")[2] for line in lines if ".so" in line}
    return [f"/{name}" for name in mapped]


def _stamps(files: list[str]) -> dict[str, str]:
    """What changes with the content of each file: its inode, size and times."""
    stamps: dict[str, str] = {}
    for file in files:
        try:
            facts = os.stat(file)  # noqa: PTH116 -- of thousands, in half the time
        except OSError:  # inside an archive, or gone since
            stamps[file] = "no file"
        else:
            numbers = (facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
            stamps[file] = " ".join(map(str, numbers))
    return stamps
