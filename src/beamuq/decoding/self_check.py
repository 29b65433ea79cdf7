"""Check a model before it decodes: choose the path whose log-probabilities agree with its plain
forward pass.

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

TREE, CACHED = "tree", "cached"
RUNNERS: dict[str, type[BatchRunner]] = {TREE: TreeRunner, CACHED: CachedRunner}
TOLERANCE, ROUNDED, STRUCTURE = 2e-4, 0.2, 0.01
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
_ROOM = 24
_FAR = 512
_SHARED, _OWN = 10, (6, 22)


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
"""The results of this process, each with the state that its model was in. They are kept nowhere
else: another process has other packages, which choose paths.
"""


def checked(model: PreTrainedModel) -> SelfCheck:
    """The path that decodes ``model``, found out once, and again whenever the model has changed
    (`model_state`).

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
    name = str(getattr(model, "name_or_path", "")) or type(model).__name__
    reasons: dict[str, str] = {}
    for path, runner in RUNNERS.items():
        try:
            agreement = _agreement(model, runner)
        except (
            Exception
        ) as error:  # whatever a foreign model raises when it is run otherwise than it expects
            if isinstance(error, RuntimeError) and out_of_memory(error):
                raise BeamUQError(
                    f"{name}: out of memory for the check of a few short prompts; use a smaller "
                    "dtype or a larger card"
                ) from error
            message = " ".join(str(error).split())[:160] or type(error).__name__
            reasons[path] = (
                message if isinstance(error, BeamUQError) else f"{type(error).__name__}: {message}"
            )
            kinds = getattr(text_decoder(model).config, "layer_types", None) or ()
            if path == TREE and (
                own := sorted({kind for kind in kinds if not kind.endswith(_ATTENDING)})
            ):
                reasons[path] += f"; it has layers of kind {', '.join(own)}"
        else:
            rounded = float(10.0 ** np.ceil(np.log10(max(agreement.difference, 1e-9))))
            return SelfCheck(
                path, rounded, agreement.lengths, reasons.get(TREE, ""), agreement.unprobed
            )
    raise BeamUQError(
        f"{name}: model type {model.config.model_type!r} cannot be decoded: over a tree: "
        f"{reasons[TREE]}; over its own "
        f"cache: {reasons[CACHED]}; use another model, or dtype float32"
    )


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


def _compared(
    model: PreTrainedModel, runner: type[BatchRunner], tolerance: float, longest: int = 0
) -> tuple[float, torch.Tensor, list[tuple[int, ...]]]:
    """The mean difference of a path from the plain forward pass, the latter's log-probabilities,
    and the texts.

    Raises BeamUQError if it is above ``tolerance``.
    """
    prompts, branches = _probe(model, longest)
    texts, by_path = _by_path(model, runner, prompts, branches)
    plain = _plainly(model, texts, by_path.shape[1], by_path.shape[2])
    difference = _mean_difference(by_path, plain)
    if not difference <= tolerance:
        raise BeamUQError(f"differs by {difference:.2g} nats on average ({tolerance:g} allowed)")
    return difference, plain, texts


def _at_all_lengths(
    model: PreTrainedModel, runner: type[BatchRunner], tolerance: float
) -> _Agreement:
    """A comparison in which windows and the like are reached, as far as they can be.

    Those that the probe is too short for are made short: each on its own, then those together where
    one alone changes nothing, such as the size of blocks and how many of them are seen. Where that
    changes nothing either, or breaks the model, whose parts were made for the longer one, the probe
    is made long instead, up to ``_FAR`` tokens. A length that no text of the model has is ignored.
    """
    difference, plain, texts = _compared(model, runner, tolerance)
    lengths = lengths_of(text_decoder(model))
    if not lengths:
        return _Agreement(difference, "none")
    differences = [difference]

    def is_probed(together: Sequence[Length]) -> bool:
        with ExitStack() as short:
            for length in together:
                short.enter_context(length.shortened())
            reached = _reaches(model, texts, plain, tolerance)
            if reached:
                differences.append(_compared(model, runner, tolerance)[0])
        return reached

    long = [length for length in lengths if not length.is_short]
    remaining = [length for length in long if not is_probed([length])]
    if len(remaining) > 1 and is_probed(remaining):
        remaining = []
    label = "probed shortened" if len(remaining) < len(long) else "probed"
    context = context_window(model)
    most = min(_FAR, (context or _FAR) - _ROOM)
    remaining = [
        length for length in remaining if length.in_blocks or length.value < (context or np.inf)
    ]
    near = [length.value for length in remaining if length.value <= most and not length.in_blocks]
    if near:
        differences.append(_compared(model, runner, tolerance, max(near))[0])
    unprobed = tuple(str(length) for length in remaining if length.value > most or length.in_blocks)
    return _Agreement(max(differences), "not probed" if unprobed else label, unprobed)


def _reaches(
    model: Any, texts: Sequence[tuple[int, ...]], before: torch.Tensor, tolerance: float
) -> bool:
    """Whether the plain forward pass works as the model is now, and gives something else than
    ``before``.
    """
    try:
        now = _plainly(model, texts, before.shape[1], before.shape[2])
    except Exception as error:  # whatever a foreign model raises whose parts no longer fit together
        if isinstance(error, RuntimeError) and out_of_memory(error):
            raise
        return False
    return _mean_difference(now, before) > tolerance


@contextmanager
def _in_float32(model: PreTrainedModel) -> Iterator[None]:
    """Within the block ``model`` computes in float32: each layer while it runs, all the rest all
    the time.
    """
    stacks = [
        part for part in text_decoder(model).children() if isinstance(part, torch.nn.ModuleList)
    ]
    layers = [layer for stack in stacks for layer in stack]
    inside = {part for layer in layers for part in layer.modules()}
    held: dict[torch.nn.Module, list[tuple[dict[str, Any], str, torch.Tensor]]] = {}

    def widen(module: torch.nn.Module, parts: Iterable[torch.nn.Module]) -> None:
        wide: dict[int, torch.Tensor] = {}  # embeddings may be the output layer too
        held[module] = []
        owned: list[dict[str, Any]] = [
            own for part in parts for own in (part._parameters, part._buffers)
        ]
        for tensors in owned:
            for name, tensor in list(tensors.items()):
                if tensor is not None and tensor.dtype in (torch.bfloat16, torch.float16):
                    held[module].append((tensors, name, tensor))
                    tensors[name] = wide.setdefault(id(tensor), tensor.float())

    def narrow(module: torch.nn.Module) -> None:
        for tensors, name, tensor in held.pop(module, []):
            tensors[name] = tensor

    hooks = [
        layer.register_forward_pre_hook(lambda layer, _: widen(layer, layer.modules()))
        for layer in layers
    ]
    hooks += [
        layer.register_forward_hook(lambda layer, *_: narrow(layer), always_call=True)
        for layer in layers
    ]
    try:
        widen(model, (part for part in model.modules() if part not in inside))
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for module in list(held):
            narrow(module)


def _mean_difference(some: torch.Tensor, others: torch.Tensor) -> float:
    """The mean absolute difference over the places that are not -inf in both.

    Those would only dilute it. One that is -inf in one alone counts as the least that is finite:
    two values on either side of that bound do not differ much.
    """
    different = (some.clamp_min(LEAST) - others.clamp_min(LEAST)).abs()
    return float(different[~(some.isneginf() & others.isneginf())].mean())


def _probe(model: PreTrainedModel, longest: int) -> tuple[list[tuple[int, ...]], list[int]]:
    """Prompts with a shared beginning, and the tokens of branches behind them; none that a config
    gives a meaning.

    The last prompt is of more than ``longest`` tokens.
    """
    config = model.config.get_text_config()
    untyped: Any = model
    size = min(untyped.get_input_embeddings().weight.shape[0], config.vocab_size)
    special = {
        special_token
        for part in (model.config, config)
        for name, value in part.to_dict().items()
        if name.endswith(("token_id", "token_index"))
        for special_token in (value if isinstance(value, list) else [value])
    }
    ordinary = [token for token in range(size) if token not in special] or list(range(size))
    draws = np.random.default_rng(0).choice(ordinary, _SHARED + sum(_OWN) + 5).tolist()
    shared, own, branches = draws[:_SHARED], draws[_SHARED:-5], draws[-5:]
    room = (context_window(model) or 1 << 30) - 4
    ends = np.cumsum([0, *_OWN]).tolist()
    if longest:
        own += np.random.default_rng(1).choice(ordinary, longest).tolist()
        ends[-1] += longest
    return [(*shared, *own[start:end])[:room] for start, end in pairwise(ends)], branches


def _by_path(
    model: PreTrainedModel,
    runner: type[BatchRunner],
    prompts: Sequence[Sequence[int]],
    branches: Sequence[int],
) -> tuple[list[tuple[int, ...]], torch.Tensor]:
    """Texts of the probe, and log-probabilities (texts, places, vocabulary) after each token from
    the prompt's last on.

    The probe returns to a node after its children were run: the state that a path keeps of it must
    not have changed.
    """
    trie, roots = TokenTrie(len(prompts)), np.arange(len(prompts))
    first, second, third, fourth, fifth = branches

    def grown(parents: Any, token: int) -> Any:
        return trie.grow(parents, np.full(len(parents), token), np.zeros(len(parents)))

    with torch.inference_mode(), runner.opened(model) as decoder:
        run = runner(
            decoder,
            [Prompt(str(n), tuple(tokens)) for n, tokens in enumerate(prompts)],
            trie,
            Work(),
        )
        run.prefill()
        left, right = grown(roots, first), grown(roots, second)
        run.run(np.concatenate([left, right]))
        deeper = grown(left, third)
        run.run(np.concatenate([deeper, grown(right, first)]))
        deepest, late = grown(deeper, fourth), grown(np.array([left[0], right[0]]), fifth)
        run.run(np.concatenate([deepest, late]))
        latest = grown(late, second)
        run.run(latest)
        leaves = np.concatenate([deepest, latest])
        places = np.array([[trie.question[leaf], *trie.path(leaf)] for leaf in leaves.tolist()])
        logits = OutputLayer(model).logits(run.run(places.ravel()))
        logprobs = log_probabilities(logits).view(*places.shape, -1)
        texts = [(*prompts[trie.question[leaf]], *trie.tokens(leaf)) for leaf in leaves.tolist()]
    return texts, logprobs


def _plainly(
    model: Any, texts: Sequence[tuple[int, ...]], places: int, vocabulary: int
) -> torch.Tensor:
    """Log-probabilities after the last ``places`` tokens of each text by the model's own forward
    pass.

    Texts of one length are run together: nothing is padded. Raises BeamUQError if its logits make
    no distribution.
    """
    kept = (
        {"logits_to_keep": places}
        if "logits_to_keep" in inspect.signature(model.forward).parameters
        else {}
    )
    logits: dict[tuple[int, ...], torch.Tensor] = {}
    with torch.inference_mode(), attention(text_decoder(model), "eager"):
        for length in sorted({len(text) for text in texts}):
            together = [text for text in texts if len(text) == length]
            ids = torch.tensor(together, device=model.device)
            logits |= zip(
                together,
                model(input_ids=ids, use_cache=False, **kept).logits[:, -places:],
                strict=True,
            )
        of_texts = widened(torch.stack([logits[text] for text in texts]).float(), vocabulary)
        if fault := fault_of_logits(of_texts):
            raise BeamUQError(f"its own forward pass gives logits that {fault}")
        return log_probabilities(of_texts)
