"""A card's minutes attributed: what decoding does with them, step by step, beside the least that
the card can take.

``python -m benchmarks.decoding --gpu`` runs it. The model has the shape of Llama 3.1 8B and random
weights in bf16: the largest model of the paper, which one card of 80 GB holds with 256 questions;
all of its cells take minutes. Weights of zero mean make flat distributions, so nothing merges and
every answer takes all 20 tokens, or, where every fourth token stops, about four.

A cell decodes four batches, with prompts of their own each: one to warm up, one for the rate, one
with phases timed, one profiled. Phases are of decoding, after the prompts. Host milliseconds are
exclusive: time in a phase within another counts for the inner one. Device milliseconds lie between
two events in the card's queue, which are read at the end. Floors are single kernels on the same
shapes. Without a card, the host's clock stands in for events.
"""

from __future__ import annotations

import itertools
import json
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import transformers
from torch import nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, supported_activities

from beamuq.decoding import Work, decode, forward_passes
from beamuq.decoding.beam_search import BeamState
from beamuq.decoding.forward_passes import (
    BatchRunner,
    Efforts,
    StepStatistics,
    TreeRunner,
    out_of_memory,
)
from beamuq.decoding.generated_token_trie import TokenTrie
from beamuq.decoding.greedy_and_samples import GreedyState, SamplesState
from beamuq.decoding.next_token_distributions import (
    ALTERNATIVES,
    HostTransfers,
    NextTokenDistributions,
)
from beamuq.decoding.output_layer import OutputLayer, text_decoder
from beamuq.decoding.random_numbers import gumbel_max
from beamuq.decoding.self_check import checked
from beamuq.decoding.tree_attention import PaddedRows, TreeCache, _kernels
from benchmarks.common import CALLS, NEW_TOKENS, POLICIES, Generate, M, random_prompts, versions

PER_QUESTION = 2 * M + 1
MASKS, LAUNCHES, LISTS, SEARCHES = (
    "masks and indices",
    "launching the decoder",
    "launching the lists",
    "policies",
)
TRIE, WAITING, COPIES = "trie", "waiting for the card", "copies"
HOST = MASKS, LAUNCHES, LISTS, SEARCHES, TRIE, WAITING, COPIES, "other"
DECODER, HEAD, TOP, DRAWS = DEVICE = "decoder", "head and softmax", "top-k", "draws"
Change = tuple[Any, str, Callable[[Any], Any]]


@dataclass(frozen=True)
class Setting:
    """A model and its cells; by default Llama 3.1 8B.

    ``shape``: vocabulary, width, inner width, layers, heads, key heads. ``prompts``: tokens, those
    shared. ``rows``: of the floors. ``generate``: batches tried. ``copied``: bytes that are copied
    to measure the memory.
    """

    shape: tuple[int, ...] = (128256, 4096, 14336, 32, 32, 8)
    batches: tuple[int, ...] = (32, 64, 128, 256)
    prompts: tuple[tuple[int, int], ...] = ((150, 0), (1000, 960))
    rows: tuple[int, ...] = (1, 64, 128, 256, 512, 1024, 2048, 4096)
    generate: tuple[int, ...] = (16, 32, 64)
    copied: int = 1 << 31
    dtype: torch.dtype = torch.bfloat16


TINY = Setting(
    (400, 32, 64, 2, 4, 2), (2, 4), ((8, 0), (30, 24)), (1, 16, 64), (2, 4), 1 << 20, torch.float32
)


def random_model(setting: Setting, device: str) -> Any:
    """A decoder of random weights."""
    loader: Any = transformers.AutoModelForCausalLM
    names = (
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
    )
    shape: dict[str, Any] = dict(zip((*names, "num_key_value_heads"), setting.shape, strict=True))
    config: Any = transformers.LlamaConfig(**shape, max_position_embeddings=8192)
    with torch.device(device):
        return loader.from_config(config, dtype=setting.dtype).eval()


def synchronize(device: torch.device) -> None:
    """Wait for the card, if there is one."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def mark(device: torch.device) -> Any:
    """This place in the card's queue, or this moment where there is no card."""
    if device.type != "cuda":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def elapsed(first: Any, last: Any) -> float:
    """Milliseconds between two marks; the card must have passed both."""
    return 1e3 * (last - first) if isinstance(first, float) else float(first.elapsed_time(last))


@contextmanager
def replaced(changes: Iterable[Change]) -> Iterator[None]:
    """Within the block, attributes of modules and classes are what the functions make of them."""
    before = [(owner, name, vars(owner)[name], make) for owner, name, make in changes]
    try:
        for owner, name, old, make in before:
            setattr(owner, name, make(old))
        yield
    finally:
        for owner, name, old, _ in before:
            setattr(owner, name, old)


class Phases:
    """Milliseconds of one batch's decoding by phase, and the ``rows`` of its steps."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.host: Counter[str] = Counter()
        self.rows: list[int] = []
        self._spans: list[tuple[str, Any, Any]] = []
        self._open: list[str] = []
        self._since = 0.0

    @property
    def device(self) -> Counter[str]:
        """Milliseconds between the marks of each phase of the card."""
        sums: Counter[str] = Counter()
        for phase, first, last in self._spans:
            sums[phase] += elapsed(first, last)
        return sums

    def _charge(self) -> None:
        now = time.perf_counter()
        self.host[self._open[-1]] += 1e3 * (now - self._since)
        self._since = now

    def timed(self, host: str, device: str = "") -> Callable[[Any], Any]:
        """What charges calls of a function to a phase of the host and, with ``device``, to one of
        the card.
        """

        def wrap(call: Any) -> Any:
            def wrapped(*arguments: Any, **options: Any) -> Any:
                if not self._open:  # before the first step
                    return call(*arguments, **options)
                self._charge()
                self._open.append(host)
                first = mark(self._device) if device else None
                try:
                    return call(*arguments, **options)
                finally:
                    if device:
                        self._spans.append((device, first, mark(self._device)))
                    self._charge()
                    self._open.pop()

            return wrapped

        return wrap

    def _each(self, generate: Any) -> Any:
        def wrapped(*given: Any) -> Any:
            made = generate(*given)
            return iter(self.timed(LISTS, HEAD)(lambda: next(made, None)), None)

        return wrapped

    def _fetch(self, fetch: Any) -> Any:
        wait = self.timed(WAITING)(lambda: synchronize(self._device))
        copy = self.timed(COPIES)(fetch)
        return lambda transfers: (wait(), copy(transfers))[1]

    def _follow(self, follow: Any) -> Any:
        def wrapped(*arguments: Any) -> Any:
            self._open, self._since = ["other"], time.perf_counter()
            try:
                found = follow(*arguments)
                synchronize(self._device)
                self._charge()
                return found
            finally:
                self._open = []

        return wrapped

    def counted(self, run_nodes: Any) -> Any:
        """`TreeRunner._run_nodes` that notes its rows."""

        def wrapped(runner: Any, nodes: Any) -> Any:
            self.rows += [len(nodes)] if len(nodes) else []
            return run_nodes(runner, nodes)

        return wrapped

    def changes(self) -> list[Change]:
        """What to replace in the engine so that it fills this."""
        searches = [
            (search, name)
            for search in (GreedyState, SamplesState, BeamState)
            for name in ("query", "advance")
        ]
        timed: dict[str, list[tuple[Any, str]]] = {
            MASKS: [
                (forward_passes, "padded_nodes"),
                (PaddedRows, "_mask"),
                (TreeCache, "reserve"),
            ],
            SEARCHES: [*searches, (StepStatistics, "add"), (Efforts, "add")],
            TRIE: [(TokenTrie, "grow"), (TokenTrie, "ancestors")],
            LISTS: [(NextTokenDistributions, "read")],
            COPIES: [(BatchRunner, "_tensor")],
        }
        return [
            (owner, name, self.timed(phase))
            for phase, places in timed.items()
            for owner, name in places
        ] + [
            (TreeRunner, "_forward", self.timed(LAUNCHES, DECODER)),
            (NextTokenDistributions, "_distributions", self._each),
            (NextTokenDistributions, "_top", self.timed(LISTS, TOP)),
            (NextTokenDistributions, "_sorted", self.timed(LISTS, TOP)),
            (NextTokenDistributions, "_draw_or_weigh", self.timed(LISTS, DRAWS)),
            (HostTransfers, "fetch", self._fetch),
            (BatchRunner, "follow", self._follow),
            (TreeRunner, "_run_nodes", self.counted),
        ]


def busy_share(trace: Any) -> tuple[float | None, int]:
    """The share of time, from the first to the last, in which the card ran something, and how many
    kernels it ran.

    ``trace`` is what torch's profiler exports. None: it saw nothing run on a card.
    """
    seen = [
        event
        for event in trace["traceEvents"]
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    ]
    spans = sorted((float(event["ts"]), float(event["ts"]) + float(event["dur"])) for event in seen)
    if not spans:
        return None, 0
    busy, end = 0.0, spans[0][0]
    for first, last in spans:
        busy += max(0.0, last - max(first, end))
        end = max(end, last)
    return busy / (end - spans[0][0]), sum(event["cat"] == "kernel" for event in seen)


def profiled(run: Callable[[], Any], device: torch.device) -> dict[str, Any]:
    """Busy share and kernels a step of the steps of one batch. A profiler that fails says so and
    stops nothing.
    """
    phases = Phases(device)
    activity = (
        ProfilerActivity.CUDA
        if ProfilerActivity.CUDA in supported_activities()
        else ProfilerActivity.CPU
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"

        def traced(follow: Any) -> Any:
            def wrapped(*arguments: Any) -> Any:
                with profile(activities=[activity]) as profiler:
                    found = follow(*arguments)
                    synchronize(device)
                profiler.export_chrome_trace(str(path))
                return found

            return wrapped

        try:
            with replaced(
                [(BatchRunner, "follow", traced), (TreeRunner, "_run_nodes", phases.counted)]
            ):
                run()
            share, kernels = busy_share(json.loads(path.read_text()))
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            return {"busy share": None, "launches per step": None, "profiler": str(error)[:200]}
    return {
        "busy share": share,
        "launches per step": kernels / max(1, len(phases.rows)) if kernels else None,
    }


def cell(
    model: Any, draw: random.Random, batch: int, prompt: tuple[int, int], stops: frozenset[int]
) -> dict[str, Any]:
    """One cell, without its floor."""
    device = model.device
    vocabulary = model.config.vocab_size

    def run(work: Work | None = None) -> None:
        prompts = random_prompts(draw, batch, *prompt, vocabulary)
        decode(
            model, prompts, POLICIES, stop_ids=stops, seed=0, max_new_tokens=NEW_TOKENS, work=work
        )

    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    run()
    work, phases = Work(), Phases(device)
    run(work)
    with replaced(phases.changes()):
        run()
    steps = max(1, len(phases.rows))
    bins = Counter(1 << (rows - 1).bit_length() for rows in phases.rows)
    return {
        "batch": batch,
        "prompt tokens, shared": prompt,
        "stops": bool(stops),
        "questions per second": batch / (work.prefill_seconds + work.decode_seconds),
        "prefill seconds": work.prefill_seconds,
        "decode seconds": work.decode_seconds,
        "prompt rows": work.prompt_rows,
        "rows per step": phases.rows,
        "steps by rows, at most": {str(most): bins[most] for most in sorted(bins)},
        "rows, sum": sum(phases.rows),
        "host ms per step": {phase: phases.host[phase] / steps for phase in HOST},
        "device ms per step": {phase: phases.device[phase] / steps for phase in DEVICE},
        "pieces": work.pieces,
        "peak GB": torch.cuda.max_memory_allocated() / 1e9 if device.type == "cuda" else None,
        **profiled(run, device),
    }


def milliseconds(run: Callable[[], Any], device: torch.device, repeats: int = 5) -> float:
    """The median of some runs, after one to warm up."""
    times = []
    for _ in range(repeats + 1):
        synchronize(device)
        first = mark(device)
        run()
        last = mark(device)
        synchronize(device)
        times.append(elapsed(first, last))
    return statistics.median(times[1:])


def floors(model: Any, setting: Setting) -> dict[str, Any]:
    """Milliseconds of single kernels on the shapes of the cells, by rows of a step; attention by
    batch and prompt.
    """
    config, output = model.config, OutputLayer(model)
    there: dict[str, Any] = {"dtype": model.dtype, "device": model.device}
    most = NextTokenDistributions(output, frozenset(), frozenset()).most_rows
    linears = [part for part in text_decoder(model).modules() if isinstance(part, nn.Linear)]
    inputs = {
        part.in_features: torch.randn(setting.rows[-1], part.in_features, **there)
        for part in linears
    }
    flat = torch.randn(
        min(most, setting.rows[-1]), output.vocabulary, device=model.device
    ).log_softmax(dim=-1)

    def layers(rows: int) -> None:  # and no list of all outputs, which would fill the card
        for part in linears:
            functional.linear(inputs[part.in_features][:rows], part.weight)

    def in_chunks(run: Callable[[int], Any], rows: int) -> None:
        for first in range(0, rows, most):
            run(min(most, rows - first))

    kinds: dict[str, Callable[[int], Any]] = {
        "layers": layers,
        HEAD: partial(
            in_chunks,
            lambda some: output.logits(inputs[config.hidden_size][:some]).log_softmax(dim=-1),
        ),
        TOP: partial(in_chunks, lambda some: flat[:some].topk(2 * ALTERNATIVES + 1)),
        DRAWS: lambda rows: gumbel_max(flat, np.arange(rows) % len(flat), np.arange(rows)),
    }
    found: dict[str, Any] = {
        kind: {rows: milliseconds(partial(run, rows), model.device) for rows in setting.rows}
        for kind, run in kinds.items()
    }
    heads, shared, found["attention"] = config.num_attention_heads, config.num_key_value_heads, {}
    for batch, (length, _) in itertools.product(setting.batches, setting.prompts):
        keys, rows = length + PER_QUESTION * NEW_TOKENS // 2, PER_QUESTION * heads // shared
        query = torch.zeros(batch, shared, rows, config.head_dim, **there)
        key = torch.zeros(batch, keys, shared, config.head_dim, **there).transpose(1, 2)
        mask = torch.zeros(batch, 1, rows, -(-keys // 8) * 8, **there)[..., :keys]
        attend = partial(functional.scaled_dot_product_attention, query, key, key, attn_mask=mask)
        with _kernels(model.device):
            one = milliseconds(attend, model.device)
        found["attention"][f"{batch}, {length}"] = one * config.num_hidden_layers
    source = torch.zeros(setting.copied, dtype=torch.uint8, device=model.device)
    rate = (
        2
        * source.nbytes
        / milliseconds(partial(torch.empty_like(source).copy_, source), model.device)
    )
    weights = (
        sum(part.weight.nbytes for part in linears) + model.get_output_embeddings().weight.nbytes
    )
    return found | {"memory GB per second": rate / 1e6, "reading the weights": weights / rate}


def floor_seconds(told: dict[str, Any], least: dict[str, Any]) -> float:
    """The seconds that a cell's products, head, lists, draws and attention take alone; draws are 10
    of 21 rows.
    """

    def at(kind: str, rows: float) -> float:
        most = max(least[kind])
        whole, rest = divmod(rows, most)
        return float(
            whole * least[kind][most]
            + (np.interp(rest, [*least[kind]], [*least[kind].values()]) if rest else 0)
        )

    steps = [
        at("layers", rows) + at(HEAD, rows) + at(TOP, rows) + at(DRAWS, rows * M / PER_QUESTION)
        for rows in told["rows per step"]
    ]
    attention = least["attention"][f"{told['batch']}, {told['prompt tokens, shared'][0]}"] * len(
        steps
    )
    return (at("layers", told["prompt rows"]) + sum(steps) + attention) / 1e3


def best_generate(model: Any, draw: random.Random, setting: Setting) -> dict[str, Any]:
    """``generate`` with ten beams: questions per second at each batch that fits, the second
    call's.
    """
    rates: dict[int, float] = {}
    for batch in setting.generate:
        try:
            for _ in range(2):
                prompts = random_prompts(draw, batch, *setting.prompts[0], model.config.vocab_size)
                started = time.perf_counter()
                Generate(model, frozenset()).call(
                    prompts, batch, **CALLS["beams"]
                )  # its answers go to the host
                rates[batch] = batch / (time.perf_counter() - started)
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            torch.cuda.empty_cache()
    return {"by batch": rates, "questions per second": max(rates.values(), default=None)}


def table(cells: list[dict[str, Any]]) -> str:
    """Twelve lines, a column for each cell: its batch, its prompt's tokens, and s where tokens
    stop.
    """
    kinds = {
        "host": ([MASKS], [LAUNCHES, LISTS], [SEARCHES, TRIE], [WAITING, COPIES]),
        "device": ([DECODER], [HEAD], [TOP, DRAWS]),
    }
    heads = [
        f"{c['batch']}/{c['prompt tokens, shared'][0]}{'s' if c['stops'] else ''}" for c in cells
    ]
    lines = [("batch/prompt, s: stops", heads)]
    for name in (
        "questions per second",
        "rows, sum",
        *kinds,
        "busy share",
        "launches per step",
        "time per floor",
    ):
        if name not in kinds:
            lines.append((name, ["-" if c[name] is None else f"{c[name]:.4g}" for c in cells]))
            continue
        for phases in kinds[name]:
            sums = [sum(c[f"{name} ms per step"][phase] for phase in phases) for c in cells]
            lines.append((f"{name} ms: {', '.join(phases)}", [f"{value:.4g}" for value in sums]))
    return "\n".join(
        f"{name:50}" + "".join(f"{value:>9}" for value in values) for name, values in lines
    )


@torch.inference_mode()
def attributed(setting: Setting, model: Any = None) -> dict[str, Any]:
    """All cells, floors and the call of ``generate``; printed as they come, and returned for
    JSON.
    """
    there = torch.cuda.is_available()
    told: dict[str, Any] = versions(torch.cuda.get_device_name() if there else "CPU") | {
        "CUDA": torch.version.cuda,
        "shape": setting.shape,
    }
    print(json.dumps(told), flush=True)
    started = time.perf_counter()
    model = random_model(setting, "cuda" if there else "cpu") if model is None else model
    told |= {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "path": checked(model).summary,
    }
    told |= {"seconds to start": time.perf_counter() - started}
    told["floors, ms"] = least = floors(model, setting)
    print(json.dumps(least), flush=True)
    draw, told["cells"] = random.Random(0), []
    for prompt in setting.prompts:
        for stops in (frozenset[int](), frozenset(range(0, model.config.vocab_size, 4))):
            for batch in setting.batches:
                found = cell(model, draw, batch, prompt, stops)
                found["floor seconds"] = floor_seconds(found, least)
                taken = found["prefill seconds"] + found["decode seconds"]
                found["time per floor"] = taken / found["floor seconds"]
                told["cells"].append(found)
                print(json.dumps(found), flush=True)
    told["generate, ten beams"] = best_generate(model, draw, setting)
    print(json.dumps(told["generate, ten beams"]))
    print(table(told["cells"]))
    told["seconds in all"] = time.perf_counter() - started
    return told
