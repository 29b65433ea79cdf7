"""A card's minutes attributed: what decoding does with them, beside the least that it can take.

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
from benchmarks.common import (
    CALLS,
    NEW_TOKENS,
    POLICIES,
    Generate,
    M,
    Results,
    random_prompts,
    versions,
)

PER_QUESTION = 2 * M + 1
# phases of the host
MASKS = "masks and indices"
LAUNCHES = "launching the decoder"
LISTS = "launching the lists"
SEARCHES = "policies"
TRIE = "trie"
WAITING = "waiting for the card"
COPIES = "copies"
HOST = (MASKS, LAUNCHES, LISTS, SEARCHES, TRIE, WAITING, COPIES, "other")
# phases of the card
DECODER = "decoder"
HEAD = "head and softmax"
TOP = "top-k"
DRAWS = "draws"
DEVICE = (DECODER, HEAD, TOP, DRAWS)
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
    make_config: Any = transformers.LlamaConfig
    vocabulary, width, inner_width, layers, heads, key_heads = setting.shape
    config = make_config(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=inner_width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        max_position_embeddings=8192,
    )
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
        """What charges calls of a function to a phase of the host, and one of the card if given."""

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
        def wrapped(*arguments: Any) -> Any:
            chunks = generate(*arguments)
            return iter(self.timed(LISTS, HEAD)(lambda: next(chunks, None)), None)

        return wrapped

    def _fetch(self, fetch: Any) -> Any:
        wait = self.timed(WAITING)(lambda: synchronize(self._device))
        copy = self.timed(COPIES)(fetch)

        def wrapped(transfers: Any) -> Any:
            wait()
            return copy(transfers)

        return wrapped

    def _follow(self, follow: Any) -> Any:
        def wrapped(*arguments: Any) -> Any:
            self._open = ["other"]
            self._since = time.perf_counter()
            try:
                result = follow(*arguments)
                synchronize(self._device)
                self._charge()
                return result
            finally:
                self._open = []

        return wrapped

    def counted(self, run_nodes: Any) -> Any:
        """`TreeRunner._run_nodes` that notes its rows."""

        def wrapped(runner: Any, nodes: Any) -> Any:
            if len(nodes):
                self.rows.append(len(nodes))
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
    """The share of time in which the card ran something, and how many kernels it ran.

    The time is from the first to the last. ``trace`` is what torch's profiler exports. None: it saw
    nothing run on a card.
    """
    kinds = ("kernel", "gpu_memcpy", "gpu_memset")
    events = [event for event in trace["traceEvents"] if event.get("cat") in kinds]
    spans = sorted(
        (float(event["ts"]), float(event["ts"]) + float(event["dur"])) for event in events
    )
    if not spans:
        return None, 0
    busy = 0.0
    start = end = spans[0][0]
    for first, last in spans:
        busy += max(0.0, last - max(first, end))
        end = max(end, last)
    return busy / (end - start), sum(event["cat"] == "kernel" for event in events)


def profiled(run: Callable[[], Any], device: torch.device) -> Results:
    """Busy share and kernels a step of one batch; a profiler that fails says so, and no more."""
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
                    result = follow(*arguments)
                    synchronize(device)
                profiler.export_chrome_trace(str(path))
                return result

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
) -> Results:
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
    work = Work()
    run(work)
    phases = Phases(device)
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


class Kernels:
    """Single kernels of a model on random inputs, for some rows of a step at once."""

    def __init__(self, model: Any, most_rows: int) -> None:
        self._output = OutputLayer(model)
        self._width = model.config.hidden_size
        # of the head, the lists and the draws at once, as the engine does it
        self._chunk = NextTokenDistributions(self._output, frozenset(), frozenset()).most_rows
        modules = text_decoder(model).modules()
        self.linears = [module for module in modules if isinstance(module, nn.Linear)]
        self._inputs = {
            linear.in_features: torch.randn(
                most_rows, linear.in_features, dtype=model.dtype, device=model.device
            )
            for linear in self.linears
        }
        rows = min(self._chunk, most_rows)
        logits = torch.randn(rows, self._output.vocabulary, device=model.device)
        self._flat = logits.log_softmax(dim=-1)

    def layers(self, rows: int) -> None:
        """All linear layers; no list of their outputs is kept, which would fill the card."""
        for linear in self.linears:
            functional.linear(self._inputs[linear.in_features][:rows], linear.weight)

    def head(self, rows: int) -> None:
        """The output layer and its softmax."""
        for size in self._chunks(rows):
            self._output.logits(self._inputs[self._width][:size]).log_softmax(dim=-1)

    def top(self, rows: int) -> None:
        """The most probable tokens."""
        for size in self._chunks(rows):
            self._flat[:size].topk(2 * ALTERNATIVES + 1)

    def draws(self, rows: int) -> None:
        """One draw a row."""
        gumbel_max(self._flat, np.arange(rows) % len(self._flat), np.arange(rows))

    def _chunks(self, rows: int) -> list[int]:
        return [min(self._chunk, rows - first) for first in range(0, rows, self._chunk)]


def floors(model: Any, setting: Setting) -> Results:
    """Milliseconds of single kernels on the shapes of the cells.

    By rows of a step; attention by batch and prompt.
    """
    kernels = Kernels(model, setting.rows[-1])
    runs = {
        "layers": kernels.layers,
        HEAD: kernels.head,
        TOP: kernels.top,
        DRAWS: kernels.draws,
    }
    times: Results = {
        kind: {rows: milliseconds(partial(run, rows), model.device) for rows in setting.rows}
        for kind, run in runs.items()
    }
    times["attention"] = {
        f"{batch}, {length}": attention_milliseconds(model, batch, length)
        for batch in setting.batches
        for length, _ in setting.prompts
    }
    rate = bytes_per_millisecond(setting.copied, model.device)
    weights = [linear.weight for linear in kernels.linears]
    weights.append(model.get_output_embeddings().weight)
    times["memory GB per second"] = rate / 1e6
    times["reading the weights"] = sum(weight.nbytes for weight in weights) / rate
    return times


def attention_milliseconds(model: Any, batch: int, length: int) -> float:
    """Attention of all layers at the middle of decoding; ``length``: tokens of a prompt."""
    config = model.config
    new = partial(torch.zeros, dtype=model.dtype, device=model.device)
    keys = length + PER_QUESTION * NEW_TOKENS // 2
    key_heads = config.num_key_value_heads
    rows = PER_QUESTION * config.num_attention_heads // key_heads
    query = new(batch, key_heads, rows, config.head_dim)
    key = new(batch, keys, key_heads, config.head_dim).transpose(1, 2)
    mask = new(batch, 1, rows, -(-keys // 8) * 8)[..., :keys]
    attend = partial(functional.scaled_dot_product_attention, query, key, key, attn_mask=mask)
    with _kernels(model.device):
        one_layer = milliseconds(attend, model.device)
    return one_layer * config.num_hidden_layers


def bytes_per_millisecond(copied: int, device: torch.device) -> float:
    """How fast memory is read and written, by a copy of so many bytes."""
    source = torch.zeros(copied, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * copied / milliseconds(partial(target.copy_, source), device)


def floor_seconds(measured_cell: Results, floor: Results) -> float:
    """The seconds that a cell's single kernels take alone; draws are 10 of 21 rows."""
    steps = 0.0
    for rows in measured_cell["rows per step"]:
        steps += interpolated(floor["layers"], rows)
        steps += interpolated(floor[HEAD], rows)
        steps += interpolated(floor[TOP], rows)
        steps += interpolated(floor[DRAWS], rows * M / PER_QUESTION)
    prompts = interpolated(floor["layers"], measured_cell["prompt rows"])
    length = measured_cell["prompt tokens, shared"][0]
    attention = floor["attention"][f"{measured_cell['batch']}, {length}"]
    return (prompts + steps + attention * len(measured_cell["rows per step"])) / 1e3


def interpolated(times: dict[int, float], rows: float) -> float:
    """Milliseconds for so many rows, of which the largest number measured is run at once."""
    most = max(times)
    whole, rest = divmod(rows, most)
    last = float(np.interp(rest, [*times], [*times.values()])) if rest else 0.0
    return whole * times[most] + last


def best_generate(model: Any, draw: random.Random, setting: Setting) -> Results:
    """``generate`` with ten beams: questions per second of the second call at each batch."""
    rates: dict[int, float] = {}
    for batch in setting.generate:
        try:
            for _ in range(2):
                prompts = random_prompts(draw, batch, *setting.prompts[0], model.config.vocab_size)
                started = time.perf_counter()
                # its answers go to the host
                Generate(model, frozenset()).call(prompts, batch, CALLS["beams"])
                rates[batch] = batch / (time.perf_counter() - started)
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            torch.cuda.empty_cache()
    return {"by batch": rates, "questions per second": max(rates.values(), default=None)}


def table(cells: list[Results]) -> str:
    """Twelve lines, a column a cell: its batch, its prompt's tokens, and s where tokens stop."""
    heads = [
        f"{cell['batch']}/{cell['prompt tokens, shared'][0]}{'s' if cell['stops'] else ''}"
        for cell in cells
    ]
    lines = [("batch/prompt, s: stops", heads)]
    lines += [_line(name, cells) for name in ("questions per second", "rows, sum")]
    for phases in ([MASKS], [LAUNCHES, LISTS], [SEARCHES, TRIE], [WAITING, COPIES]):
        lines.append(_line_of_phases("host", phases, cells))
    for phases in ([DECODER], [HEAD], [TOP, DRAWS]):
        lines.append(_line_of_phases("device", phases, cells))
    for name in ("busy share", "launches per step", "time per floor"):
        lines.append(_line(name, cells))
    return "\n".join(
        f"{name:50}" + "".join(f"{value:>9}" for value in values) for name, values in lines
    )


def _line(name: str, cells: list[Results]) -> tuple[str, list[str]]:
    return name, ["-" if cell[name] is None else f"{cell[name]:.4g}" for cell in cells]


def _line_of_phases(where: str, phases: list[str], cells: list[Results]) -> tuple[str, list[str]]:
    sums = [sum(cell[f"{where} ms per step"][phase] for phase in phases) for cell in cells]
    return f"{where} ms: {', '.join(phases)}", [f"{value:.4g}" for value in sums]


@torch.inference_mode()
def attributed(setting: Setting, model: Any = None) -> Results:
    """All cells, floors and the call of ``generate``, printed as they come."""
    has_card = torch.cuda.is_available()
    results: Results = {
        **versions(torch.cuda.get_device_name() if has_card else "CPU"),
        "CUDA": torch.version.cuda,
        "shape": setting.shape,
    }
    print(json.dumps(results), flush=True)
    started = time.perf_counter()
    if model is None:
        model = random_model(setting, "cuda" if has_card else "cpu")
    results["parameters"] = sum(weight.numel() for weight in model.parameters())
    results["path"] = checked(model).summary
    results["seconds to start"] = time.perf_counter() - started
    results["floors, ms"] = floors(model, setting)
    print(json.dumps(results["floors, ms"]), flush=True)
    draw = random.Random(0)
    results["cells"] = []
    for prompt in setting.prompts:
        for stops in (frozenset[int](), frozenset(range(0, model.config.vocab_size, 4))):
            for batch in setting.batches:
                measured_cell = cell(model, draw, batch, prompt, stops)
                measured_cell |= _against_floor(measured_cell, results["floors, ms"])
                results["cells"].append(measured_cell)
                print(json.dumps(measured_cell), flush=True)
    results["generate, ten beams"] = best_generate(model, draw, setting)
    print(json.dumps(results["generate, ten beams"]))
    print(table(results["cells"]))
    results["seconds in all"] = time.perf_counter() - started
    return results


def _against_floor(measured_cell: Results, floor: Results) -> Results:
    seconds = measured_cell["prefill seconds"] + measured_cell["decode seconds"]
    least = floor_seconds(measured_cell, floor)
    return {"floor seconds": least, "time per floor": seconds / least}
