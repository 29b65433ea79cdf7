"""Serve a GGUF file by llama.cpp, in float32: ``python llama_cpp_server.py FILE.gguf PORT``.

Run by an environment with the packages `xllamacpp` and `gguf` (tools/served_check.py makes one). A
quantised file is written again with float32 weights, beside it. ``--flash-attention`` and
``--half-cache`` are llama.cpp's defaults, under which log-probabilities differ by 1e-2.
"""

from __future__ import annotations

import argparse
import signal
from pathlib import Path
from typing import Any

CONTEXT = 1024
"""Tokens of a slot."""
WRITTEN_BY_ITSELF = ("GGUF.", "general.architecture", "general.file_type")


def float32_copy(quantised: Path) -> Path:
    """The same model with float32 weights, in a file beside; written once."""
    import gguf

    path = quantised.with_suffix(".float32.gguf")
    if path.exists():
        return path
    reader = gguf.GGUFReader(quantised)
    partial = path.with_suffix(".partial")
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(partial, architecture)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for name, field in reader.fields.items():
        if not name.startswith(WRITTEN_BY_ITSELF):
            copy_field(writer, name, field)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return partial.rename(path)


def copy_field(writer: Any, name: str, field: Any) -> None:
    """One entry of a file's header; of a list the type of its entries stands second."""
    kind, *entries = field.types
    entry_kind = entries[0] if entries else None
    writer.add_key_value(name, field.contents(), kind, sub_type=entry_kind)


def serve(path: Path, port: int, *, slots: int, flash_attention: bool, half_cache: bool) -> None:
    """Answer on loopback until SIGTERM or SIGINT."""
    import xllamacpp

    attention = xllamacpp.llama_flash_attn_type
    cache = xllamacpp.ggml_type
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.n_parallel = slots
    parameters.n_ctx = CONTEXT * slots
    parameters.endpoint_props = True
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    parameters.flash_attn_type = (
        attention.LLAMA_FLASH_ATTN_TYPE_AUTO
        if flash_attention
        else attention.LLAMA_FLASH_ATTN_TYPE_DISABLED
    )
    cache_type = cache.GGML_TYPE_F16 if half_cache else cache.GGML_TYPE_F32
    parameters.cache_type_k = cache_type
    parameters.cache_type_v = cache_type
    server = xllamacpp.Server(parameters)
    print(f"llama.cpp listens on {server.listening_address}", flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="a GGUF file, of any quantisation")
    parser.add_argument("port", type=int)
    parser.add_argument("--slots", type=int, default=10, help="prefixes at once")
    parser.add_argument("--flash-attention", action="store_true")
    parser.add_argument("--half-cache", action="store_true", help="keys and values in float16")
    options = parser.parse_args()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    serve(
        float32_copy(options.file),
        options.port,
        slots=options.slots,
        flash_attention=options.flash_attention,
        half_cache=options.half_cache,
    )


if __name__ == "__main__":
    main()
