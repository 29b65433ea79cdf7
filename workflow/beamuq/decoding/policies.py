"""What to decode: prompts, the policies that choose tokens, and the candidates they yield.

A policy is a value; its ``strategy`` is the string by which every later table knows its candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from beamuq import strategies
from beamuq.errors import BeamUQError

if TYPE_CHECKING:
    from beamuq.decoding.walks import Setting, Walk

_OTHER_WARPERS = {
    "min_p": 0.0,
    "typical_p": 1.0,
    "top_h": None,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "min_length": 0,
    "min_new_tokens": 0,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "bad_words_ids": None,
    "num_beams": 1,
    "sequence_bias": None,
    "guidance_scale": 1.0,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "exponential_decay_length_penalty": None,
}


@dataclass(frozen=True)
class Prompt:
    """A question's prompt as the tokens the model reads, start token included if the model wants one."""

    id: str
    token_ids: tuple[int, ...]


@dataclass(frozen=True)
class Greedy:
    """The most probable token at every step (D5)."""

    @property
    def strategy(self) -> str:
        return strategies.GREEDY


@dataclass(frozen=True)
class Sample:
    """``size`` independent draws from the model's own distribution, sharpened to 1/``temperature`` (D4)."""

    size: int
    temperature: float = 1.0

    def __post_init__(self) -> None:
        _positive("size", self.size)
        _positive("temperature", self.temperature)

    @property
    def strategy(self) -> str:
        return strategies.sample(self.temperature)


@dataclass(frozen=True)
class Beam:
    """Beam search of ``width``, with the semantics of transformers' ``generate``.

    The defaults rank by log p and stop exactly, when no running beam can enter the best ``width`` (D3).
    ``length_penalty`` divides a finished hypothesis' log p by its length to that power, terminator included;
    ``early_stopping`` is ``generate``'s: ``True`` stops at ``width`` finished hypotheses, ``False`` compares the best
    running one at its present length, ``"never"`` at the length that flatters it most. A width of 1 is greedy decoding
    as long as ``length_penalty`` is 0; ``generate`` ignores the penalty there.
    """

    width: int
    length_penalty: float = 0.0
    early_stopping: strategies.EarlyStopping = "never"

    def __post_init__(self) -> None:
        _positive("width", self.width)
        if self.early_stopping not in ("never", True, False):
            raise ValueError(f"early_stopping must be 'never', True or False, not {self.early_stopping!r}")

    @property
    def strategy(self) -> str:
        return strategies.beam(self.width, self.length_penalty, self.early_stopping)


@dataclass(frozen=True)
class DiverseBeam:
    """Diverse beam search: ``size`` beams in ``groups``, each a search of width size / groups (``lambda`` = penalty).

    At every step the groups choose in turn; a token loses ``penalty`` from its log-probability for each time that
    earlier groups have just continued a beam with it. The groups' searches rank and stop by these lowered scores; the
    answers are all groups', ordered by their own log p. Two groups may find the same answer.
    """

    size: int
    groups: int
    penalty: float

    def __post_init__(self) -> None:
        _positive("groups", self.groups)
        _positive("size", self.size)
        if self.size % self.groups:
            raise ValueError(f"groups must be a divisor of size {self.size}, not {self.groups}")
        if self.penalty < 0:
            raise ValueError(f"penalty must be at least 0, not {self.penalty}")

    @property
    def strategy(self) -> str:
        return strategies.diverse(self.groups, self.penalty)


@dataclass(frozen=True)
class Hybrid:
    """A beam search of width ``beams``, then ``size`` - ``beams`` draws from the law that excludes its answers.

    The draws follow the model's distribution conditioned on being none of the beams' token sequences; they may repeat.
    There are none where the beams leave less than 1e-9 of the mass.
    """

    size: int
    beams: int

    def __post_init__(self) -> None:
        _positive("beams", self.beams)
        if self.beams > self.size:
            raise ValueError(f"beams must be at most size {self.size}, not {self.beams}")

    @property
    def strategy(self) -> str:
        return strategies.hybrid(self.beams)


@dataclass(frozen=True)
class Shipped:
    """One draw under a model's shipped generation config: only to explain differences from print (D5).

    The law is sharpened to 1/``temperature``, cut to the ``top_k`` most probable tokens (0: all), then to the fewest of
    them that hold ``top_p`` of the mass. ``top_k`` = 1 is greedy.
    """

    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 1.0

    def __post_init__(self) -> None:
        _positive("temperature", self.temperature)
        _positive("top_p", self.top_p)
        if self.top_k < 0:
            raise ValueError(f"top_k must be at least 0, not {self.top_k}")

    @classmethod
    def of(cls, config: Any) -> Shipped:
        """The law of a model's ``generation_config``, with the defaults of ``generate`` where it is silent.

        Raises
        ------
        BeamUQError
            If the config asks for something that changes the law in a way not known here.
        """
        for name, neutral in _OTHER_WARPERS.items():
            if getattr(config, name, None) not in (None, neutral):
                raise BeamUQError(
                    f"generation_config.json: {name} = {getattr(config, name)!r} is not supported by 'shipped'; "
                    "leave 'shipped' out of the study for this model"
                )
        if not config.do_sample:
            return cls(top_k=1)
        said = {name: getattr(config, name) for name in ("temperature", "top_k", "top_p")}
        return cls(**{name: value for name, value in said.items() if value is not None})

    @property
    def strategy(self) -> str:
        return strategies.SHIPPED


@runtime_checkable
class CustomPolicy(Protocol):
    """A policy from outside the package, which brings its own walk: a search, in which each outcome stands once."""

    @property
    def strategy(self) -> str: ...

    def walk(self, setting: Setting) -> Walk:
        """The policy under way on a wave."""


def check_custom(name: str, policy: object) -> None:
    """Refuse what a study names as its own strategy and is no search; ``name`` is how the study calls it.

    Weights by probability are right for a search alone: a draw comes up as often as it is probable already.

    Raises
    ------
    BeamUQError
        If it draws, or has neither a walk nor one of the package's.
    """
    for kind in (Sample, Hybrid, Shipped):
        if isinstance(policy, kind):
            raise BeamUQError(
                f"policy {name!r}: a {kind.__name__} draws; a strategy of your own must be a search, each outcome once "
                "(weights by probability would count a draw twice); use the recipe's sample or hybrid"
            )
    if not isinstance(policy, CustomPolicy | Greedy | Beam | DiverseBeam):
        raise BeamUQError(f"policy {name!r}: a {type(policy).__name__} has no strategy and walk(setting); add both")


Policy = Greedy | Sample | Beam | DiverseBeam | Hybrid | Shipped | CustomPolicy


@dataclass(frozen=True, eq=False)
class Candidate:
    """One answer of one policy to one prompt. Log-probabilities are natural, T is the number of tokens.

    ``token_logprobs`` are the model's own (temperature 1), terminator included, and ``logprob`` is their float64 sum
    (D2, D6). ``policy_logprob`` is the log-probability under the law the candidate was drawn from (tempered,
    conditional) and None for a search. ``terminated`` is False for an answer cut at the largest length.
    Greedy, shipped and the first beam of each beam search also carry, per step, the entropy in nats of the full
    distribution and the ten most probable tokens with their log-probabilities, most probable first; a chosen token
    outside the ten is appended as the eleventh.
    """

    prompt_id: str
    strategy: str
    rank: int
    token_ids: tuple[int, ...]
    token_logprobs: NDArray[np.float64]
    logprob: float
    policy_logprob: float | None
    terminated: bool
    entropies: NDArray[np.float64] | None = None
    top_ids: tuple[tuple[int, ...], ...] | None = None
    top_logprobs: tuple[tuple[float, ...], ...] | None = None


def _positive(name: str, value: float) -> None:
    if not value > 0:
        raise ValueError(f"{name} must be positive, not {value}")
