"""The grammar of strategies and settings: the one place that spells and reads their names.

A strategy's name stands in the column ``strategy`` of every table, and its draws' random numbers
are keyed by it. It is a kind and ``key=value`` pairs, as the functions below write them:
``greedy``, ``shipped``, ``beam M=10 length_penalty=-1.0 early_stopping=True``, or your own search
such as ``wide M=4 W=8``. A value is a number, of either sign, or ``True`` or ``False``.

The column ``setting`` of scores holds a strategy, or one parameter of an ablation, which is its own
kind: ``epsilon=0.1``, ``alpha=0.9``, ``K=3``, ``M=5``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import numpy as np

from beamuq.errors import BeamUQError

GREEDY = "greedy"
SHIPPED = "shipped"
DRAWN = (
    "sample",
    "hybrid",
    "shipped",
    "systematic",
    "stochastic",
    "optimal_stratified",
    "adaptive",
)
"""Kinds whose candidates are drawn, at least in part: one comes up as often as it is probable."""
KINDS = (GREEDY, "beam", "diverse", "exact", "all_above", *DRAWN)
"""Kinds of the package; the first word of a custom search is none of them."""
FOR_ESTIMATORS = (
    "exact",
    "all_above",
    "systematic",
    "stochastic",
    "optimal_stratified",
    "adaptive",
)
"""Kinds whose candidates estimators of Dissimilarity read; other methods only if asked to."""
CUSTOM_NAME = r"[a-z]+(?: [A-Za-z]+=[0-9]+(?:\.[0-9]+)?)*"
"""What a custom search may be called."""

LEAST_TEMPERATURE = 1e-6
"""Of samples: colder ones are greedy's answer; float32 has no number for their probabilities."""

EarlyStopping = Literal["never"] | bool

_WORDS = {"True": True, "False": False}
_VALUE = r"(?:True|False|-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?)"
_FORM = re.compile(rf"(?P<kind>[a-z_]+)?(?P<pairs>(?:(?:^| )[A-Za-z_]+={_VALUE})*)")


def sample(temperature: float) -> str:
    """Multinomial samples at a temperature: ``sample T=1.0``."""
    return f"sample T={float(temperature)!r}"


def beam(width: int, length_penalty: float = 0.0, early_stopping: EarlyStopping = "never") -> str:
    """A beam search: ``beam M=10``, and what departs from exact search ranked by log p."""
    name = f"beam M={width}"
    if length_penalty:
        name += f" length_penalty={float(length_penalty)!r}"
    if early_stopping != "never":
        name += f" early_stopping={early_stopping}"
    return name


def diverse(groups: int, penalty: float) -> str:
    """Diverse beam search: ``diverse G=2 lambda=0.5``."""
    return f"diverse G={groups} lambda={float(penalty)!r}"


def hybrid(beams: int) -> str:
    """Beams, then samples that exclude them: ``hybrid B=3``."""
    return f"hybrid B={beams}"


def of_size(kind: str, size: int) -> str:
    """A strategy of one size and no more: ``exact M=10``.

    The policies of :mod:`beamuq.decoding` say what each kind is. ``adaptive`` is
    ``optimal_stratified`` whose draws are the points of one lattice.
    """
    return f"{kind} M={size}"


def all_above(p: float, draws: int = 0, lattices: int = 0) -> str:
    """Every outcome at least so probable, and draws from outside: ``all_above p=0.002 draws=10``.

    The draws are independent, or points of so many independent lattices: ``all_above p=0.002
    draws=100 lattices=10``.
    """
    name = f"all_above p={number(p)}"
    if draws:
        name += f" draws={draws}"
    if lattices:
        name += f" lattices={lattices}"
    return name


def ablation(name: str, value: float) -> str:
    """One parameter of an ablation: ``epsilon=0.1``."""
    return f"{name}={number(value)}"


def samples_of(strategy: str, M: int, draw: int | None = None) -> str:
    """The first M samples of a strategy, or the ``draw``-th M of them, from 1.

    ``sample T=1.0 M=10 draw=3``.
    """
    name = f"{strategy} M={M}"
    return f"{name} draw={draw}" if draw else name


def number(value: float) -> str:
    """A number as the tables spell it: ``0``, ``1.0``, ``0.00001``; an integer stays one, ``3``."""
    if value == 0 or isinstance(value, int):
        return str(int(value))
    return np.format_float_positional(value, trim="0")


def parse(text: str) -> tuple[str, dict[str, float | bool]]:
    """Kind and parameters of a strategy or setting: ``"beam M=10"`` → ``("beam", {"M": 10.0})``.

    Raises BeamUQError if the text is not of this grammar.
    """
    form = _FORM.fullmatch(text)
    if not form or not text:
        raise BeamUQError(
            f"{text!r} is not a strategy or setting; write one like 'beam M=10' or 'epsilon=0.1'"
        )
    pairs = dict(pair.split("=") for pair in form["pairs"].split())
    parameters = {
        key: _WORDS[value] if value in _WORDS else float(value) for key, value in pairs.items()
    }
    kind = form["kind"] or next(iter(pairs))
    return kind, parameters


def printed(strategy: str) -> str:
    """The paper's name of a strategy: ``multinomial T=0.7`` for samples, any other the same."""
    return strategy.replace("sample", "multinomial")


def from_print(text: str) -> str:
    """The strategy that the paper's tables call ``text``."""
    return text.replace("multinomial", "sample")


def kind_of(text: str) -> str:
    """The kind alone: ``"beam M=10"`` → ``"beam"``."""
    return parse(text)[0]


def of_kind(names: Iterable[str], kind: str) -> list[str]:
    """Those of ``names`` that are of this kind."""
    return [name for name in names if kind_of(name) == kind]


def searches(names: Iterable[str]) -> list[str]:
    """Those of ``names`` whose candidates are found once each and weigh their probability.

    No draws and not greedy.
    """
    return [name for name in names if name != GREEDY and not draws(name)]


def set_beside_samples(names: Iterable[str], kinds: Iterable[str]) -> list[str]:
    """Those of ``names`` beside which as many samples are scored.

    All but the sets for estimators, unless an estimator is asked of one of their ``kinds``.
    """
    unasked = set(FOR_ESTIMATORS).difference(kinds)
    return [name for name in names if kind_of(name) not in unasked]


def draws(name: str) -> bool:
    """Whether some of a strategy's candidates are drawn."""
    kind, parameters = parse(name)
    return kind in DRAWN or "draws" in parameters


def beam_of_width(names: Iterable[str], width: int) -> str:
    """The beam search of this width among ``names``, whatever its options.

    A recipe has one per width. Without one: the name of the plain beam search.
    """
    for name in of_kind(names, "beam"):
        _, parameters = parse(name)
        if parameters["M"] == width:
            return name
    return beam(width)
