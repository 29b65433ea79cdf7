"""Check a model before it decodes: choose the path that agrees with its plain forward pass.

A class may scale, cap or bias what the engine knows nothing of, and a list of names is no proof
that it does not. So a few short prompts with a shared beginning, and branches behind them, go
through a path and through the model's own ``forward`` with eager attention, its definition (fused
kernels may leave out caps and sinks). Where the log-probabilities of all tokens agree, the path is
taken: the tree if it can be, the model's own cache otherwise.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from transformers import PreTrainedModel

from beamuq.array_types import Ints
from beamuq.decoding.attention_lengths import Length, lengths_of
from beamuq.decoding.cached_passes import CachedRunner
from beamuq.decoding.context_window import context_window
from beamuq.decoding.forward_passes import BatchRunner, TreeRunner, Work, out_of_memory
from beamuq.decoding.generated_token_trie import TokenTrie
from beamuq.decoding.model_state import State, state_of
from beamuq.decoding.next_token_distributions import LEAST, fault_of_logits, log_probabilities
from beamuq.decoding.output_layer import OutputLayer, text_decoder, widened
from beamuq.decoding.search_state import Prompt
from beamuq.decoding.tree_attention import attention
from beamuq.errors import BeamUQError

TREE = "tree"
CACHED = "cached"
RUNNERS: dict[str, type[BatchRunner]] = {TREE: TreeRunner, CACHED: CachedRunner}
TOLERANCE = 2e-4
ROUNDED = 0.2
STRUCTURE = 0.01
"""The largest mean difference of log-probabilities, in nats, over all tokens of all probed places.

``TOLERANCE`` is that of a float32 model. Rounding is amplified where a model is ill-conditioned, at
a few tokens or places, by a hundred and more; a mean over all of them hardly moves, while one place
that is wrong by 0.01 nats moves it beyond. Measured where paths are right, on seventy classes and
on real weights: up to 1e-5.

A model of another dtype has to pass twice: as it will be run, where up to 0.1 was measured (experts
that another rounding chooses), within ``ROUNDED``; and in float32, a layer at a time, within
``STRUCTURE``, which leaves room for the shortened products of some cards. From 0.5 on was measured
where a recurrent state or a mask is missing.
"""
_ATTENDING = ("full_attention", "sliding_attention", "chunked_attention")
_FAR = 512
"""The longest probe, in tokens."""
_ROOM = 24
"""Places of a model's context window that a long probe leaves free."""
_SHARED = 10
_OWN = (6, 22)
_BRANCHES = 5
"""The probe's tokens: shared by its prompts, of each prompt's own, and for branches behind them."""


@dataclass(frozen=True)
class SelfCheck:
    """The result of the check.

    ``path`` is "tree" or "cached"; ``difference`` the mean difference in nats, rounded up to a
    power of ten, so that it is the same on most machines; ``lengths`` says whether windows, chunks
    and the like were reached: "none", "probed", "probed shortened" or "not probed", where
    ``unprobed`` names those that were not; ``reason`` why it is not the tree, empty where it is.
    """

    path: str
    difference: float
    lengths: str
    reason: str = ""
    unprobed: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The check's result in one line."""
        paths = {
            TREE: "decoded by attention over a tree",
            CACHED: "decoded over its own cache, which is slower",
        }
        unprobed = f"; not probed: {', '.join(self.unprobed)}" if self.unprobed else ""
        because = f"; not over a tree: {self.reason}" if self.reason else ""
        return (
            f"{paths[self.path]} (within {self.difference:g} nats of its plain forward "
            f"pass{unprobed}{because})"
        )


_RESULTS: WeakKeyDictionary[PreTrainedModel, tuple[State, SelfCheck]] = WeakKeyDictionary()
"""The results of this process, each with the state that its model was in.

Another process has other packages, which choose paths: :mod:`beamuq.models.earlier_checks` keeps
what the command found under a hash of them.
"""


def checked(model: PreTrainedModel) -> SelfCheck:
    """The path that decodes ``model``, found out once, and again whenever the model has changed.

    Raises BeamUQError if a part is in training mode, or if no path gives what the model's own
    forward pass gives, with the reasons.
    """
    for name, module in model.named_modules():
        if module.training:
            what = f"its module {name!r}" if name else "the model"
            raise BeamUQError(
                f"{what} is in training mode, where dropout is random; call model.eval()"
            )
    if model in _RESULTS:
        state, result = _RESULTS[model]
        if state == state_of(model):
            return result
    result = _check(model)
    remember(model, result)
    return result


def remember(model: PreTrainedModel, result: SelfCheck) -> None:
    """Let ``result`` be that of ``model`` until the model changes."""
    _RESULTS[model] = state_of(model), result


def _check(model: PreTrainedModel) -> SelfCheck:
    """Try the paths in their order, and take the first that agrees."""
    name = str(getattr(model, "name_or_path", "")) or type(model).__name__
    reasons: dict[str, str] = {}
    for path, runner in RUNNERS.items():
        try:
            agreement = _agreement(model, runner)
        except Exception as error:  # a foreign model that is run otherwise may raise anything
            if isinstance(error, RuntimeError) and out_of_memory(error):
                raise BeamUQError(
                    f"{name}: out of memory for the check of a few short prompts; use a smaller "
                    "dtype or a larger card"
                ) from error
            reasons[path] = _reason(error)
            if path == TREE:
                reasons[path] += _unusual_layers(model)
        else:
            rounded = float(10.0 ** np.ceil(np.log10(max(agreement.difference, 1e-9))))
            why_no_tree = reasons.get(TREE, "")
            return SelfCheck(path, rounded, agreement.lengths, why_no_tree, agreement.unprobed)
    raise BeamUQError(
        f"{name}: model type {model.config.model_type!r} cannot be decoded: over a tree: "
        f"{reasons[TREE]}; over its own cache: {reasons[CACHED]}; use another model, or dtype "
        "float32"
    )


def _reason(error: Exception) -> str:
    """Why a path cannot be taken, in one short line."""
    message = " ".join(str(error).split())[:160] or type(error).__name__
    return message if isinstance(error, BeamUQError) else f"{type(error).__name__}: {message}"


def _unusual_layers(model: PreTrainedModel) -> str:
    """Words about layers that do not attend as usual, to follow a reason; "": there are none."""
    kinds = getattr(text_decoder(model).config, "layer_types", None) or ()
    unusual = sorted({kind for kind in kinds if not kind.endswith(_ATTENDING)})
    return f"; it has layers of kind {', '.join(unusual)}" if unusual else ""


class _Agreement(NamedTuple):
    """What a comparison came to; as in `SelfCheck`."""

    difference: float
    lengths: str
    unprobed: tuple[str, ...] = ()


def _agreement(model: PreTrainedModel, runner: type[BatchRunner]) -> _Agreement:
    """How a path compares with the plain forward pass.

    Raises BeamUQError if they differ by more than is tolerated.
    """
    if next(text_decoder(model).parameters()).dtype is torch.float32:
        return _at_all_lengths(model, runner, TOLERANCE)
    _compared(model, runner, ROUNDED)
    try:
        with _in_float32(model):
            return _at_all_lengths(model, runner, STRUCTURE)
    except BeamUQError:
        raise
    except Exception:  # weights that have no float32, such as quantised ones, or no room for it
        return _at_all_lengths(model, runner, ROUNDED)


@dataclass
class _Comparison:
    """A path beside the plain forward pass: their mean difference in nats over ``texts``.

    ``plain`` are the latter's log-probabilities (texts, places, vocabulary).
    """

    difference: float
    plain: torch.Tensor
    texts: list[tuple[int, ...]]


def _compared(
    model: PreTrainedModel, runner: type[BatchRunner], tolerance: float, longest: int = 0
) -> _Comparison:
    """A path compared with the plain forward pass, on prompts of which one is above ``longest``.

    Raises BeamUQError if they differ by more than ``tolerance`` on average.
    """
    prompts, branches = _probe(model, longest)
    texts, by_path = _by_path(model, runner, prompts, branches)
    plain = _plainly(model, texts, by_path.shape[1], by_path.shape[2])
    difference = _mean_difference(by_path, plain)
    if not difference <= tolerance:
        raise BeamUQError(f"differs by {difference:.2g} nats on average ({tolerance:g} allowed)")
    return _Comparison(difference, plain, texts)


def _at_all_lengths(
    model: PreTrainedModel, runner: type[BatchRunner], tolerance: float
) -> _Agreement:
    """A comparison in which windows and the like are reached, as far as they can be.

    The usual probe has forty tokens. Lengths above that are made shorter than the probe: each on
    its own, then all together, since one alone may change nothing, such as the size of blocks
    without how many of them are seen.

    Where that changes nothing either, or breaks the model, whose parts were made for the longer
    one, the probe is made long instead, up to ``_FAR`` tokens. That reaches no length that counts
    blocks: how many tokens a block has is not known. A length above the context window is ignored,
    since no text reaches it.
    """
    usual = _compared(model, runner, tolerance)
    lengths = lengths_of(text_decoder(model))
    if not lengths:
        return _Agreement(usual.difference, "none")
    long = [length for length in lengths if not length.is_short]
    remaining, differences = _probe_shortened(long, model, runner, tolerance, usual)
    label = "probed shortened" if len(remaining) < len(long) else "probed"
    remaining = _that_texts_can_have(remaining, context_window(model))
    most = _longest_probe(model)
    near = [length.value for length in remaining if length.value <= most and not length.in_blocks]
    if near:
        differences.append(_compared(model, runner, tolerance, max(near)).difference)
    unprobed = tuple(str(length) for length in remaining if length.value > most or length.in_blocks)
    difference = max([usual.difference, *differences])
    return _Agreement(difference, "not probed" if unprobed else label, unprobed)


def _probe_shortened(
    lengths: Sequence[Length],
    model: PreTrainedModel,
    runner: type[BatchRunner],
    tolerance: float,
    usual: _Comparison,
) -> tuple[list[Length], list[float]]:
    """The ``lengths`` that cannot be probed by making them short, and the others' differences."""
    remaining: list[Length] = []
    differences: list[float] = []
    for length in lengths:
        difference = _with_shortened([length], model, runner, tolerance, usual)
        if difference is None:
            remaining.append(length)
        else:
            differences.append(difference)
    if len(remaining) > 1:
        difference = _with_shortened(remaining, model, runner, tolerance, usual)
        if difference is not None:
            return [], [*differences, difference]
    return remaining, differences


def _with_shortened(
    lengths: Sequence[Length],
    model: PreTrainedModel,
    runner: type[BatchRunner],
    tolerance: float,
    usual: _Comparison,
) -> float | None:
    """A path's difference with ``lengths`` made short; None where that changes nothing.

    Raises BeamUQError if it is above ``tolerance``.
    """
    with ExitStack() as short:
        for length in lengths:
            short.enter_context(length.shortened())
        if not _reaches(model, usual, tolerance):
            return None
        return _compared(model, runner, tolerance).difference


def _that_texts_can_have(lengths: Sequence[Length], context: int | None) -> list[Length]:
    """The lengths that a text within the ``context`` window can reach, or that count blocks."""
    most = context or np.inf
    return [length for length in lengths if length.in_blocks or length.value < most]


def _longest_probe(model: PreTrainedModel) -> int:
    """The largest length for which the probe can be made long."""
    return min(_FAR, (context_window(model) or _FAR) - _ROOM)


def _reaches(model: Any, usual: _Comparison, tolerance: float) -> bool:
    """Whether the plain forward pass works as the model is now, and gives another result."""
    _, places, vocabulary = usual.plain.shape
    try:
        now = _plainly(model, usual.texts, places, vocabulary)
    except Exception as error:  # whatever a foreign model raises whose parts no longer fit together
        if isinstance(error, RuntimeError) and out_of_memory(error):
            raise
        return False
    return _mean_difference(now, usual.plain) > tolerance


@contextmanager
def _in_float32(model: PreTrainedModel) -> Iterator[None]:
    """Within the block ``model`` computes in float32: each layer while it runs, the rest always."""
    children = text_decoder(model).children()
    stacks = [part for part in children if isinstance(part, torch.nn.ModuleList)]
    layers = [layer for stack in stacks for layer in stack]
    inside = {part for layer in layers for part in layer.modules()}
    weights = _WidenedWeights()
    hooks = []
    for layer in layers:
        hooks.append(layer.register_forward_pre_hook(weights.widen_layer))
        hooks.append(layer.register_forward_hook(weights.narrow_layer, always_call=True))
    try:
        weights.widen(model, (part for part in model.modules() if part not in inside))
        yield
    finally:
        for hook in hooks:
            hook.remove()
        weights.narrow_all()


@dataclass
class _NarrowTensor:
    """A parameter or buffer before it was widened: ``tensors[name]`` of a module."""

    tensors: dict[str, torch.Tensor | None]
    name: str
    tensor: torch.Tensor


class _WidenedWeights:
    """Weights of modules that are float32 for a while."""

    def __init__(self) -> None:
        self._narrow: dict[torch.nn.Module, list[_NarrowTensor]] = {}

    def widen(self, module: torch.nn.Module, parts: Iterable[torch.nn.Module]) -> None:
        """Make the weights of ``parts`` float32, until ``module`` is made narrow again."""
        wide: dict[int, torch.Tensor] = {}  # embeddings may be the output layer too
        self._narrow[module] = []
        for part in list(parts):
            for tensors in (part._parameters, part._buffers):
                self._widen_tensors(module, tensors, wide)

    def _widen_tensors(
        self, module: torch.nn.Module, tensors: Any, wide: dict[int, torch.Tensor]
    ) -> None:
        for name, tensor in list(tensors.items()):
            if tensor is not None and tensor.dtype in (torch.bfloat16, torch.float16):
                self._narrow[module].append(_NarrowTensor(tensors, name, tensor))
                tensors[name] = wide.setdefault(id(tensor), tensor.float())

    def widen_layer(self, layer: torch.nn.Module, _arguments: Any) -> None:
        """A hook before a layer's forward."""
        self.widen(layer, layer.modules())

    def narrow_layer(self, layer: torch.nn.Module, *_: Any) -> None:
        """A hook after a layer's forward."""
        for narrow in self._narrow.pop(layer, []):
            narrow.tensors[narrow.name] = narrow.tensor

    def narrow_all(self) -> None:
        """Make all weights what they were."""
        for module in list(self._narrow):
            self.narrow_layer(module)


def _mean_difference(first: torch.Tensor, second: torch.Tensor) -> float:
    """The mean absolute difference over the places that are not -inf in both.

    Those would only dilute it. One that is -inf in one alone counts as the least that is finite:
    two values on either side of that bound do not differ much.
    """
    different = (first.clamp_min(LEAST) - second.clamp_min(LEAST)).abs()
    return float(different[~(first.isneginf() & second.isneginf())].mean())


def _probe(model: PreTrainedModel, longest: int) -> tuple[list[tuple[int, ...]], list[int]]:
    """Prompts with a shared beginning, and the tokens of branches behind them.

    The last prompt is of more than ``longest`` tokens.
    """
    ordinary = _ordinary_tokens(model)
    count = _SHARED + sum(_OWN) + _BRANCHES
    draws = np.random.default_rng(0).choice(ordinary, count).tolist()
    shared = draws[:_SHARED]
    own = draws[_SHARED:-_BRANCHES]
    branches = draws[-_BRANCHES:]
    room = (context_window(model) or 1 << 30) - 4
    ends = np.cumsum([0, *_OWN]).tolist()
    if longest:
        own += np.random.default_rng(1).choice(ordinary, longest).tolist()
        ends[-1] += longest
    return [(*shared, *own[start:end])[:room] for start, end in pairwise(ends)], branches


def _ordinary_tokens(model: PreTrainedModel) -> list[int]:
    """The tokens to which no config gives a meaning; all if there are none."""
    config = model.config.get_text_config()
    untyped: Any = model
    size = min(untyped.get_input_embeddings().weight.shape[0], config.vocab_size)
    special: set[Any] = set()
    for part in (model.config, config):
        for name, value in part.to_dict().items():
            if name.endswith(("token_id", "token_index")):
                special.update(value if isinstance(value, list) else [value])
    return [token for token in range(size) if token not in special] or list(range(size))


class _ProbedTrie:
    """The trie of a probe, whose nodes have no log-probabilities."""

    def __init__(self, prompts: Sequence[Sequence[int]]) -> None:
        self._prompts = prompts
        self.trie = TokenTrie(len(prompts))
        self.roots: Ints = np.arange(len(prompts))

    def grown(self, parents: Ints, token: int) -> Ints:
        """The children of ``parents`` by one token."""
        return self.trie.grow(parents, np.full(len(parents), token), np.zeros(len(parents)))

    def places(self, leaf: int) -> list[int]:
        """The nodes from the prompt's end down to ``leaf``."""
        return [int(self.trie.question[leaf]), *self.trie.path(leaf)]

    def text(self, leaf: int) -> tuple[int, ...]:
        """The tokens of a prompt and of its answer down to ``leaf``."""
        return (*self._prompts[self.trie.question[leaf]], *self.trie.tokens(leaf))


def _by_path(
    model: PreTrainedModel,
    runner: type[BatchRunner],
    prompts: Sequence[Sequence[int]],
    branches: Sequence[int],
) -> tuple[list[tuple[int, ...]], torch.Tensor]:
    """Texts of the probe, and a path's log-probabilities (texts, places, vocabulary) in them.

    They are those after each token from the prompt's last on.
    """
    probed = _ProbedTrie(prompts)
    batch = [Prompt(str(number), tuple(tokens)) for number, tokens in enumerate(prompts)]
    with torch.inference_mode(), runner.opened(model) as decoder:
        run = runner(decoder, batch, probed.trie, Work())
        run.prefill()
        leaves = _run_branches(run, probed, branches).tolist()
        places = np.array([probed.places(leaf) for leaf in leaves])
        logits = OutputLayer(model).logits(run.run(places.ravel()))
        logprobs = log_probabilities(logits).view(*places.shape, -1)
    return [probed.text(leaf) for leaf in leaves], logprobs


def _run_branches(run: BatchRunner, probed: _ProbedTrie, branches: Sequence[int]) -> Ints:
    """Run branches behind the prompts, three tokens deep; returns their ends.

    The probe returns to a node after its children were run: the state that a path keeps of it must
    not have changed.
    """
    first, second, third, fourth, fifth = branches
    left = probed.grown(probed.roots, first)
    right = probed.grown(probed.roots, second)
    run.run(np.concatenate([left, right]))
    deeper = probed.grown(left, third)
    run.run(np.concatenate([deeper, probed.grown(right, first)]))
    deepest = probed.grown(deeper, fourth)
    late = probed.grown(np.array([left[0], right[0]]), fifth)
    run.run(np.concatenate([deepest, late]))
    latest = probed.grown(late, second)
    run.run(latest)
    return np.concatenate([deepest, latest])


def _plainly(
    model: Any, texts: Sequence[tuple[int, ...]], places: int, vocabulary: int
) -> torch.Tensor:
    """Log-probabilities after the last ``places`` tokens of each text by the model's own forward.

    Texts of one length are run together: nothing is padded. Raises BeamUQError if its logits make
    no distribution.
    """
    options: dict[str, int] = {}
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        options["logits_to_keep"] = places
    logits: dict[tuple[int, ...], torch.Tensor] = {}
    with torch.inference_mode(), attention(text_decoder(model), "eager"):
        for length in sorted({len(text) for text in texts}):
            together = [text for text in texts if len(text) == length]
            token_ids = torch.tensor(together, device=model.device)
            output = model(input_ids=token_ids, use_cache=False, **options)
            logits |= zip(together, output.logits[:, -places:], strict=True)
        of_texts = widened(torch.stack([logits[text] for text in texts]).float(), vocabulary)
        if fault := fault_of_logits(of_texts):
            raise BeamUQError(f"its own forward pass gives logits that {fault}")
        return log_probabilities(of_texts)
