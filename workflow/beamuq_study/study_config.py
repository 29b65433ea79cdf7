"""``studies/*.yaml``: the science of a run, as a typed object.

A study is checked whole before anything runs: an unknown key, an unknown model in the grid, an
exhibit that the grid cannot supply, an impossible number, each is one line with file, key, value
and fix (``beamuq.config_errors``). The JSON schemas in ``workflow/schemas`` are written from these
classes.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from beamuq import strategy_names
from beamuq.config_errors import StrictModel, parse_json, read_yaml, validated
from beamuq.errors import BeamUQError, check_ends, hint
from beamuq.plugins import FORM
from beamuq_study.produced_answers import AnswerSource, strategy_of

ROOT = Path(__file__).resolve().parents[2]  # of a checkout; an installed package has none
STUDIES = ROOT / "studies"
DEMO_DATA = ROOT / "workflow" / "demo"

Positive = Annotated[
    int, Field(ge=1, le=1_000_000)
]  # far above what is decoded, and what memory bears


def one_of(choices: tuple[str, ...]) -> Any:
    """One of ``choices``, or ``module:attribute``; another name is refused with the nearest."""

    def check(name: Any) -> Any:
        if isinstance(name, str) and name not in choices and not re.fullmatch(FORM, name):
            raise ValueError(
                f"unknown name; {hint(name, choices, ', or module:attribute of your own')}"
            )
        return name

    return BeforeValidator(check)


def one_of_names(choices: tuple[str, ...]) -> Any:
    """One of ``choices``; another name is refused with the nearest of them."""

    def check(name: Any) -> Any:
        if isinstance(name, str) and name not in choices:
            raise ValueError(f"unknown name; {hint(name, choices)}")
        return name

    return BeforeValidator(check)


def shaped(pattern: str, meaning: str) -> Any:
    """A text of this pattern; another is refused with what is meant, not the pattern."""

    def check(text: Any) -> Any:
        if isinstance(text, str) and not re.fullmatch(pattern, text):
            raise ValueError(f"write {meaning}")
        return text

    return BeforeValidator(check)


def each_once(items: list[Any]) -> list[Any]:
    """The same list. Raises ValueError naming the first item that stands twice."""
    for place, item in enumerate(items):
        if item in items[:place]:
            raise ValueError(f"{json.dumps(item)} stands twice; drop one")
    return items


def from_home(place: Any) -> Any:
    """A path, or ``folder:PATH``, whose leading ``~`` is a home, as in a shell."""
    if not isinstance(place, str):
        return place
    kind = "folder:" if place.startswith("folder:") else ""
    return kind + os.path.expanduser(place.removeprefix(kind))  # noqa: PTH111  (keeps others as written)


def one_or_more(kind: Any) -> Any:
    """A list of numbers of this kind, or one of them alone."""
    return BeforeValidator(
        lambda value: value if isinstance(value, list) else [value],
        json_schema_input_type=kind | Distinct[kind],
    )


T = TypeVar("T")
Distinct = Annotated[
    list[T], AfterValidator(each_once), Field(json_schema_extra={"uniqueItems": True})
]
FROM_HOME = BeforeValidator(from_home)
NAME = r"[a-z0-9][a-z0-9._-]*"
Name = Annotated[
    str,
    Field(pattern=f"^{NAME}$", max_length=64, description="safe in a file name"),
    shaped(NAME, "small letters, digits, dots, _ and -, as it stands in file names"),
]
EXPANDED = shaped(
    r"[^$~][^$]*", "a path with nothing left for a shell to put in: no $NAME, no ~name"
)
HUB = r"hub:\w[\w.-]*/\w[\w.-]*"
PACKAGED = r"packaged:[a-z0-9][a-z0-9.-]*"
FOLDER = r"folder:.+"
SERVED = "server:"
SERVER = rf"{SERVED}[a-z0-9][a-z0-9._-]*"
WEIGHTS = f"{HUB}|{PACKAGED}|{FOLDER}"
MODEL = f"{WEIGHTS}|{SERVER}"
REPOSITORY = r"hub:\w[\w.-]*(/\w[\w.-]*)?"
QUESTIONS = f"{REPOSITORY}|{FOLDER}|demo"
CHECKPOINT = rf"{HUB}/\w[\w.-]*|{FOLDER}"
BACKBONE = f"{REPOSITORY}|{FOLDER}"
WHERE_WEIGHTS_ARE = "hub:ORG/NAME, packaged:NAME or folder:PATH"
ROWS = "most prefixes run for a question before its search is stopped"
Text = Annotated[str, Field(min_length=1)]
Share = Annotated[float, Field(gt=0, le=1)]
KINDS = ("nli", "cross_encoder", "embedding", "lexical")
TURNS = ("only_turns", "turns_left_out")  # keys of a dataset that choose among a dialogue's turns
NORMALIZERS = ("folded", "squad", "triviaqa", "coqa")
METRICS = ("alignscore", "answer_f1", "exact_match", "gold_label")


class Model(StrictModel):
    """A language model, under the key that its rows carry in every table."""

    label: Name = Field(description="short form for file names: tables/qa_<label>")
    title: Text = Field(description="as the exhibits print it")
    source: Annotated[
        str, FROM_HOME, shaped(MODEL, f"{WHERE_WEIGHTS_ARE}, or server:NAME of config.yaml")
    ] = Field(
        pattern=f"^({MODEL})$",
        description="hub:ORG/NAME, packaged:NAME, folder:PATH or server:NAME of config.yaml",
    )
    tokenizer: Annotated[str | None, FROM_HOME, shaped(WEIGHTS, WHERE_WEIGHTS_ARE)] = Field(
        default=None,
        pattern=f"^({WEIGHTS})$",
        description="of a served model: where its tokenizer and configs come from",
    )
    style: Literal["base", "instruct"] = Field(
        description="which prompt template; instruct goes through chat"
    )
    enable_thinking: bool | None = Field(
        default=None, description="must be said for a chat template that can think first (Qwen 3)"
    )
    temperature: float | None = Field(
        default=None,
        ge=0.05,
        le=5,
        description="of every next-token distribution: its own are p^(1/T) / Z then",
    )
    cards: int | None = Field(
        default=None,
        ge=1,
        le=64,
        description="graphics cards of one machine that its layers are spread over; null: one",
    )

    @model_validator(mode="after")
    def _what_a_server_brings_is_not_said_here(self) -> Model:
        if not self.is_served:
            if self.tokenizer is not None:
                raise ValueError("tokenizer: is for a source server:NAME; remove it")
            return self
        if self.tokenizer is None:
            raise ValueError(
                f"source {self.source}: a served model needs tokenizer: hub:ORG/NAME, "
                "packaged:NAME or folder:PATH; add it"
            )
        if self.temperature is not None:
            raise ValueError(
                f"temperature: source {self.source}: a server lists the most probable tokens, and "
                "tempering needs all of them; remove temperature, or load the model here"
            )
        if self.cards is not None:
            raise ValueError(
                f"cards: source {self.source}: the server holds the model; remove cards"
            )
        return self

    @property
    def is_served(self) -> bool:
        """Whether a server of ``config.yaml`` holds its weights."""
        return self.source.startswith(SERVED)

    @property
    def server(self) -> str | None:
        """The name of its server; None: jobs load it."""
        return self.source.removeprefix(SERVED) if self.is_served else None

    @property
    def folder_source(self) -> str:
        """The source of the folder that jobs read: of a served model it has no weights."""
        return self.tokenizer or self.source


class Dataset(StrictModel):
    """A dataset, how many of its questions are asked, and how."""

    title: Text
    category: Text = Field(description="the column group in tables: Closed-Book QA, …")
    adapter: str = Field(
        pattern=r"^[a-z]\w*$", description="which reader; also the folder's name under data_root"
    )
    source: Annotated[
        str, FROM_HOME, shaped(QUESTIONS, "hub:ORG/NAME, folder:PATH of its splits, or demo")
    ] = Field(
        pattern=f"^({QUESTIONS})$",
        description="hub:ORG/NAME, demo, or folder:PATH of its splits",
    )
    config: str | None = Field(
        default=None, description="the hub's configuration, such as rc.nocontext"
    )
    licence: Text = Field(description="of the questions, as the report prints it")
    split: str = Field(pattern=r"^\w+$", description="where the questions come from")
    few_shot_split: str = Field(default="train", pattern=r"^\w+$")
    few_shot: int = Field(default=0, ge=0, le=50)
    questions: Positive
    max_new_tokens: int = Field(default=20, ge=1, le=512)
    only_turns: Distinct[Positive] | None = Field(
        default=None,
        min_length=1,
        description="of a dialogue's questions these alone are asked, the first is 1; default all",
    )
    turns_left_out: Distinct[Positive] | None = Field(
        default=None,
        min_length=1,
        description="of a dialogue's questions these are not asked, such as those of a pilot",
    )
    normalizer: Annotated[str | None, one_of_names(NORMALIZERS)] = Field(
        default=None,
        pattern=f"^({'|'.join(NORMALIZERS)})$",
        description=(
            "how answers are compared with references (D17, quality): folded keeps signs, points "
            "and symbols; "
            "squad, triviaqa and coqa are the paper's; default: folded for adapter jsonl, that of "
            "the paper for the others"
        ),
    )

    @model_validator(mode="after")
    def _shots_fit_the_template(self) -> Dataset:
        if self.adapter in ("coqa", "hotpot_qa") and self.few_shot:
            raise ValueError(
                f"few_shot is {self.few_shot}, but the {self.adapter} prompt has no few-shot "
                "block; write few_shot: 0"
            )
        return self

    @model_validator(mode="after")
    def _turns_are_of_dialogues(self) -> Dataset:
        keys = [key for key in TURNS if getattr(self, key) is not None]
        if keys and self.adapter != "coqa":
            raise ValueError(
                f"{keys[0]}: only questions of adapter coqa have turns, not of {self.adapter}; "
                "remove the key"
            )
        if len(keys) > 1:
            raise ValueError(f"{keys[0]} and {keys[1]} both say which turns are asked; drop one")
        return self


class Policy(NamedTuple):
    """How a strategy is decoded: a policy in ``beamuq.decoding``, by name, and its arguments.

    The name "custom" stands for a policy from outside the package.
    """

    strategy: str
    policy: str
    arguments: tuple[Any, ...] = ()


class SampleStrategy(StrictModel):
    """``size`` multinomial samples at each temperature."""

    size: Positive
    temperatures: Distinct[Annotated[float, Field(ge=strategy_names.LEAST_TEMPERATURE, le=10)]] = (
        Field(default=[1.0], min_length=1)
    )

    def policies(self) -> list[Policy]:
        return [
            Policy(strategy_names.sample(T), "Sample", (self.size, T)) for T in self.temperatures
        ]


class BeamStrategy(StrictModel):
    """One beam search a width, ranked by log p and stopped exactly unless options say otherwise
    (D3, beam search).
    """

    widths: Distinct[Positive] = Field(min_length=1)
    length_penalty: float = 0.0
    early_stopping: strategy_names.EarlyStopping = "never"

    def policies(self) -> list[Policy]:
        policies = []
        for width in self.widths:
            arguments = (width, self.length_penalty, self.early_stopping)
            policies.append(Policy(strategy_names.beam(*arguments), "Beam", arguments))
        return policies


class DiverseStrategy(StrictModel):
    """Diverse beam search: every group count with every penalty."""

    size: Positive
    groups: Distinct[Positive] = Field(min_length=1)
    penalties: Distinct[Annotated[float, Field(ge=0)]] = Field(min_length=1)

    @model_validator(mode="after")
    def _groups_divide_size(self) -> DiverseStrategy:
        for groups in self.groups:
            if self.size % groups:
                raise ValueError(
                    f"groups {groups} does not divide size {self.size}; choose a divisor"
                )
        return self

    def policies(self) -> list[Policy]:
        policies = []
        for groups in self.groups:
            for penalty in self.penalties:
                name = strategy_names.diverse(groups, penalty)
                policies.append(Policy(name, "DiverseBeam", (self.size, groups, penalty)))
        return policies


class HybridStrategy(StrictModel):
    """B beams, then size − B samples from the distribution that excludes them."""

    size: Positive
    beams: Distinct[Positive] = Field(min_length=1)

    @model_validator(mode="after")
    def _beams_leave_room(self) -> HybridStrategy:
        for beams in self.beams:
            if beams >= self.size:
                raise ValueError(
                    f"beams {beams} leaves no sample in size {self.size}; choose at most "
                    f"{self.size - 1}"
                )
        return self

    def policies(self) -> list[Policy]:
        return [
            Policy(strategy_names.hybrid(beams), "Hybrid", (self.size, beams))
            for beams in self.beams
        ]


class Sizes(StrictModel):
    """One strategy for each number M of candidates."""

    sizes: Distinct[Positive] = Field(min_length=1)


class SizesWithinRows(Sizes):
    """One search for each number M of outcomes, the most probable ones."""

    rows: Positive = Field(default=2000, description=ROWS)

    def policies(self) -> list[Policy]:
        """Those of ``exact``."""
        return [
            Policy(strategy_names.of_size("exact", M), "Exact", (M, self.rows)) for M in self.sizes
        ]

    def optimal_policies(self, kind: str, *, lattice: bool) -> list[Policy]:
        """Those of ``optimal_stratified`` and ``adaptive``, which draws the points of a lattice."""
        return [
            Policy(strategy_names.of_size(kind, M), "OptimalStratified", (M, lattice, self.rows))
            for M in self.sizes
        ]


class AllAboveStrategy(StrictModel):
    """Every outcome of probability ``p`` or more, then draws from outside: independent ones, or
    equal lattices.
    """

    p: float = Field(gt=0, lt=1)
    draws: int = Field(default=0, ge=0, le=1_000_000)
    lattices: int = Field(default=0, ge=0, description="0: the draws are independent")
    rows: Positive = Field(default=2000, description=ROWS)

    @model_validator(mode="after")
    def _lattices_divide_draws(self) -> AllAboveStrategy:
        if self.lattices and (not self.draws or self.draws % self.lattices):
            raise ValueError(
                f"lattices {self.lattices} does not divide draws {self.draws}; choose a divisor"
            )
        return self

    def policies(self) -> list[Policy]:
        outside = (self.p, self.draws, self.lattices)
        return [Policy(strategy_names.all_above(*outside), "AllAbove", (*outside, self.rows))]


class CustomStrategy(StrictModel):
    """A search of one's own: a policy from outside the package, in which each outcome stands
    once.
    """

    strategy: Annotated[
        str,
        shaped(strategy_names.CUSTOM_NAME, "a word and key=number pairs, such as 'wide M=4 W=8'"),
    ] = Field(
        pattern=f"^{strategy_names.CUSTOM_NAME}$",
        description="its name in every table, as the policy's own `strategy` says it",
    )
    policy: Annotated[
        str, shaped(FORM, "module:attribute of a policy in plugins/, such as my_strategy:Wide")
    ] = Field(pattern=f"^{FORM}$", description="module:attribute")
    options: dict[str, int | float | str | bool] = Field(
        default={}, description="the policy's keyword arguments"
    )

    @field_validator("strategy")
    @classmethod
    def _not_ours(cls, strategy: str) -> str:
        if strategy_names.kind_of(strategy) in strategy_names.KINDS:
            raise ValueError("begins like a strategy of the package; choose another first word")
        return strategy


class Recipe(StrictModel):
    """Strategies decoded together over one prefill. Greedy, the produced answer, is always among
    them.
    """

    sample: SampleStrategy | None = None
    beam: BeamStrategy | None = None
    diverse: DiverseStrategy | None = None
    hybrid: HybridStrategy | None = None
    exact: SizesWithinRows | None = Field(
        default=None, description="the M most probable outcomes, proven"
    )
    all_above: AllAboveStrategy | None = Field(
        default=None, description="every outcome so probable, and draws from outside"
    )
    systematic: Sizes | None = Field(default=None, description="M points of one lattice")
    stochastic: Sizes | None = Field(
        default=None, description="M distinct outcomes by the Gumbel top-k trick"
    )
    optimal_stratified: SizesWithinRows | None = Field(
        default=None,
        description=(
            "of M candidates the best number of most probable outcomes, the others drawn from "
            "outside"
        ),
    )
    adaptive: SizesWithinRows | None = Field(
        default=None, description="the same, drawn as the points of one lattice"
    )
    custom: list[CustomStrategy] | None = Field(
        default=None, description="searches from outside the package"
    )
    shipped: bool = Field(
        default=False,
        description="one draw under the model's shipped generation config (D5, greedy)",
    )
    batch_questions: int | None = Field(
        default=None, ge=1, le=4096, description="as the study's key, for this recipe"
    )
    merge_stop_tokens: bool = Field(
        default=False,
        description=(
            "all bare stop tokens count as one ending, with their summed p (D21, merged endings)"
        ),
    )

    @model_validator(mode="after")
    def _something_to_decode(self) -> Recipe:
        strategies = self.strategies()
        if set(strategies) <= {strategy_names.GREEDY, strategy_names.SHIPPED}:
            no_strategies = ("shipped", "batch_questions", "merge_stop_tokens")
            keys = ", ".join(key for key in type(self).model_fields if key not in no_strategies)
            raise ValueError(f"names no strategy; give at least one of {keys}")
        each_once(strategies)
        return self

    def searched(self) -> dict[str, Any]:
        """The recipe as job texts and footers have it: no null keys, nor those beside it there."""
        return self.model_dump(
            mode="json", exclude_none=True, exclude={"merge_stop_tokens", "batch_questions"}
        )

    def policies(self) -> list[Policy]:
        """Each strategy with its policy, in the order of the tables."""
        policies = [Policy(strategy_names.GREEDY, "Greedy")]
        for search in (
            self.sample,
            self.beam,
            self.diverse,
            self.hybrid,
            self.exact,
            self.all_above,
        ):
            if search:
                policies += search.policies()
        policies += self._policies_by_size()
        for custom in self.custom or ():
            policies.append(Policy(custom.strategy, "custom", (custom,)))
        if self.shipped:
            policies.append(Policy(strategy_names.SHIPPED, "Shipped"))
        return policies

    def _policies_by_size(self) -> list[Policy]:
        """Of the strategies that are one search for each number M of candidates."""
        policies = []
        for M in _sizes(self.systematic):
            name = strategy_names.of_size("systematic", M)
            policies.append(Policy(name, "Systematic", (M,)))
        for M in _sizes(self.stochastic):
            name = strategy_names.of_size("stochastic", M)
            policies.append(Policy(name, "Stochastic", (M,)))
        if self.optimal_stratified:
            policies += self.optimal_stratified.optimal_policies(
                "optimal_stratified", lattice=False
            )
        if self.adaptive:
            policies += self.adaptive.optimal_policies("adaptive", lattice=True)
        return policies

    def strategies(self) -> list[str]:
        """Names as every table has them: ``greedy``, ``sample T=1.0``, ``beam M=10``, …"""
        return [policy.strategy for policy in self.policies()]

    def decoded(self, strategy: str) -> str | None:
        """What this recipe decodes for ``strategy``: itself, else the beam search of its width.

        So a recipe that departs from the exact search (D3, beam search) is scored as the main one
        is.
        """
        strategies = self.strategies()
        kind, options = strategy_names.parse(strategy)
        if kind == "beam":
            strategy = strategy_names.beam_of_width(strategies, int(options["M"]))
        return strategy if strategy in strategies else None

    def known_outcomes(self, M: int) -> list[str]:
        """The strategies that tell the model's distribution, with its M most probable outcomes.

        None where any of them is missing.
        """
        above = self.all_above
        if not above or not above.draws or above.lattices:
            return []
        sizes = [size for size in _sizes(self.exact) if size >= M]
        if not sizes:
            return []
        smallest = strategy_names.of_size("exact", min(sizes))
        return [*strategy_names.of_kind(self.strategies(), "all_above"), smallest]

    def samples(self) -> list[str]:
        """The strategies of ``sample``: draws from the model's distribution, tempered or not."""
        if not self.sample:
            return []
        return [strategy_names.sample(temperature) for temperature in self.sample.temperatures]

    def searches(self) -> list[str]:
        """The strategies whose candidates weigh their probability: no draws and not greedy."""
        return strategy_names.searches(self.strategies())

    def width(self, search: str) -> int | None:
        """How many candidates a search of this recipe gives; None: its name does not say."""
        kind, parameters = strategy_names.parse(search)
        if kind == "diverse" and self.diverse:
            return self.diverse.size
        return int(parameters["M"]) if "M" in parameters else None


def _sizes(sized: Sizes | None) -> list[int]:
    return sized.sizes if sized else []


class GridEntry(StrictModel):
    """A recipe on models × datasets, scored with the named similarity scorers."""

    recipe: str
    models: list[str] = Field(min_length=1)
    datasets: list[str] = Field(min_length=1)
    questions: Positive | None = Field(
        default=None, description="a prefix of the dataset's; default all"
    )
    scorers: Distinct[str] = Field(min_length=1)

    def places(self) -> list[tuple[str, str, str]]:
        """Model, dataset and recipe of each of its cells, models first."""
        return list(itertools.product(self.models, self.datasets, [self.recipe]))


class Scorer(StrictModel):
    """A similarity s(·, ·) in [0, 1]."""

    kind: Annotated[str, one_of(KINDS)] = Field(
        pattern=f"^({'|'.join(KINDS)}|{FORM})$",
        description=f"{', '.join(KINDS)}, or module:attribute of one's own",
    )
    title: Text = Field(description="as captions name it")
    source: Annotated[str | None, FROM_HOME, shaped(WEIGHTS, WHERE_WEIGHTS_ARE)] = Field(
        default=None, pattern=f"^({WEIGHTS})$"
    )
    equivalence_threshold: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description=(
            "threshold of s for 'same meaning' where there are no classes (D18, no classes)"
        ),
    )
    proxy_for: str | None = Field(
        default=None, description="the paper's scorer that this one replaces"
    )

    @model_validator(mode="after")
    def _complete(self) -> Scorer:
        if ":" in self.kind:
            return self
        if (self.kind == "lexical") == (self.source is not None):
            fix = "remove source" if self.kind == "lexical" else "add source: hub:ORG/NAME"
            raise ValueError(
                f"a scorer of kind {self.kind} {'loads no model' if self.source else 'needs one'}; "
                f"{fix}"
            )
        if (self.kind == "nli") == (self.equivalence_threshold is not None):
            fix = (
                "remove equivalence_threshold"
                if self.kind == "nli"
                else "add equivalence_threshold: 0.8"
            )
            raise ValueError(f"equivalence_threshold is for scorers without classes; {fix}")
        return self


class Quality(StrictModel):
    """How right a produced answer is, in [0, 1]; correct is strictly above ``threshold``."""

    metric: Annotated[str, one_of(METRICS)] = Field(
        pattern=f"^({'|'.join(METRICS)}|{FORM})$",
        description=f"{', '.join(METRICS)}, or module:attribute of one's own",
    )
    title: Text
    source: Annotated[
        str | None, FROM_HOME, shaped(CHECKPOINT, "hub:ORG/NAME/FILE or folder:PATH")
    ] = Field(default=None, pattern=f"^({CHECKPOINT})$", description="hub:ORG/NAME/FILE")
    backbone: Annotated[str | None, FROM_HOME, shaped(BACKBONE, "hub:ORG/NAME or folder:PATH")] = (
        Field(default=None, pattern=f"^({BACKBONE})$")
    )
    threshold: float = Field(default=0.5, ge=0, lt=1)
    proxy_for: str | None = None
    datasets: Distinct[str] | None = Field(
        default=None,
        min_length=1,
        description="where it is measured, such as gold_label where there are options; default all",
    )

    @model_validator(mode="after")
    def _complete(self) -> Quality:
        learned = self.metric == "alignscore"
        if learned != (self.source is not None) or learned != (self.backbone is not None):
            fix = "give source and backbone" if learned else "remove source and backbone"
            raise ValueError(f"metric {self.metric}: {fix}")
        return self


class Main(StrictModel):
    """What the main tables are made of."""

    recipe: str = "main"
    scorer: str = Field(description="the similarity s of the main tables, and CCP's judge")
    relevance: str | None = Field(
        default=None, description="the cross-encoder of SAR, one of the scorers"
    )
    sample: str = strategy_names.sample(1.0)
    beam: str = strategy_names.beam(10)
    num_candidates: Positive = 10
    alpha: float = Field(default=0.9, gt=0, le=2)
    epsilon: float = Field(default=0.0, ge=0, le=1)


class BeamsMap(StrictModel):
    """Where the model's distribution is known: PRR of estimates after sharpening it, with a truth
    drawn from it.
    """

    powers: Distinct[Annotated[float, Field(ge=1, le=10)]] = Field(
        default=[1.0, 1.25, 1.5, 2.0, 3.0], min_length=1, description="g of p^g / Z"
    )
    kappas: Distinct[Annotated[float, Field(ge=0, le=3)]] = Field(
        default=[0.25, 0.5, 0.75, 1.0, 1.25],
        min_length=1,
        description="κ of the truth; 1: calibrated",
    )
    sizes: Distinct[Positive] = Field(default=[3, 5, 10, 20], min_length=1, description="M")
    draws: int = Field(
        default=40, ge=1, le=1000, description="draws of M candidates, whose PRR is averaged"
    )
    resamples: int = Field(default=1000, ge=100, le=100_000)
    skip: dict[Name, Positive] = Field(
        default={}, description="by dataset, so many first questions are left out"
    )


class Scoring(StrictModel):
    """What is scored from a recipe's candidates: methods, and settings that are rows of a table,
    not jobs.
    """

    methods: Distinct[str] = Field(min_length=1, description="in the order of the tables' rows")
    every_strategy: bool = Field(
        default=False, description="score each strategy of the recipe, not only the main two"
    )
    epsilon: Distinct[Annotated[float, Field(ge=0, le=1)]] = []
    alpha: Distinct[Annotated[float, Field(gt=0, le=2)]] = []
    fixed_k: Distinct[Positive] = []
    budgets: Distinct[Positive] = []
    powers: Distinct[Annotated[float, Field(ge=0, le=10)]] = Field(
        default=[],
        description="γ of Dissimilarity over beams weighted by p^γ; its own weights have γ = 1",
    )
    every_draw: bool = Field(
        default=False,
        description=(
            "score the methods over samples on every disjoint draw of the main M too, not on the "
            "first alone"
        ),
    )
    estimators: Distinct[str] = Field(
        default=[],
        description=(
            "of Dissimilarity from this recipe's candidates: a weighting and a kind of strategy, "
            "such as "
            "'unnormalised beam'"
        ),
    )
    beams_map: BeamsMap | None = Field(
        default=None,
        description=(
            "when beams win; the recipe has all_above with draws, and exact of the largest M"
        ),
    )


class Evaluation(StrictModel):
    """Metrics and their intervals (D13, metrics)."""

    metrics: Distinct[Literal["PRR", "ROC-AUC", "PR-AUC"]] = Field(default=["PRR"], min_length=1)
    max_rejection: Annotated[Distinct[Share], one_or_more(Share), Field(min_length=1)] = Field(
        default=[0.5],
        description=(
            "PRR is to this share of rejected answers: a number or a list, of which each further "
            "one, such "
            "as 1, is measured as PRR@1, with a table qa_mean_prr_1"
        ),
    )
    resamples: int = Field(default=2000, ge=100, le=100_000)
    confidence: float = Field(default=0.95, gt=0.5, lt=1)


class Decisions(StrictModel):
    """When an answer is shown (D27, decisions)."""

    risks: Distinct[Annotated[float, Field(gt=0, lt=1)]] = Field(
        default=[0.05, 0.10, 0.20],
        min_length=1,
        description="largest shares of wrong answers among the shown ones, a threshold each",
    )
    confidence: float = Field(
        default=0.95, ge=0.5, lt=1, description="with which all thresholds of a cell hold together"
    )


class Study(StrictModel):
    """A complete study; never merged with another."""

    title: Text
    demo: bool = Field(description="true: every exhibit carries the word demo")
    seed: int = Field(ge=0, lt=2**63)
    newline_stops: bool = Field(
        default=True,
        description=(
            "a token whose text holds a newline ends an answer, whose text is cleaned; false: "
            "texts are "
            "whole, with all their lines (D1, ending)"
        ),
    )
    batch_questions: int = Field(
        ge=1, le=4096, description="questions decoded together; rounding alone hangs on it"
    )
    models: dict[Name, Model] = Field(min_length=1)
    datasets: dict[Name, Dataset] = Field(min_length=1)
    recipes: dict[Name, Recipe] = Field(min_length=1)
    grid: list[GridEntry] = Field(min_length=1)
    scorers: dict[Name, Scorer] = Field(min_length=1)
    quality: Annotated[list[Quality], one_or_more(Quality), Field(min_length=1)] = Field(
        description=(
            "one, or a list: the first is that of every exhibit, each further one is evaluated "
            "beside it"
        ),
    )
    main: Main
    scoring: dict[Name, Scoring] = Field(min_length=1, description="by recipe")
    answer_source: Distinct[AnswerSource] = Field(default=["greedy"], min_length=1)
    evaluation: Evaluation = Evaluation()
    decisions: Decisions = Decisions()
    exhibits: list[str] = Field(description="labels; tables qa_<label> come by model")

    @field_validator("quality")
    @classmethod
    def _the_first_quality_is_measured_everywhere(cls, qualities: list[Quality]) -> list[Quality]:
        each_once([quality.metric for quality in qualities])
        if qualities[0].datasets:
            raise ValueError(
                "the first is that of every exhibit, and its key datasets leaves some out; remove "
                "the key, or put a "
                "quality of all datasets first"
            )
        return qualities

    @field_validator("models")
    @classmethod
    def _labels_are_unique(cls, models: dict[str, Model]) -> dict[str, Model]:
        key_of_label: dict[str, str] = {}
        for key, model in models.items():
            if (first := key_of_label.setdefault(model.label, key)) != key:
                raise ValueError(
                    f"{key}.label: {model.label!r} is also the label of {first!r}; change one"
                )
        return models

    @property
    def main_quality(self) -> Quality:
        """The first: that of exhibits and of the comparison with the paper."""
        return self.quality[0]

    @property
    def entries(self) -> dict[tuple[str, str, str], GridEntry]:
        """The entry of the grid that each cell is of, by model, dataset and recipe."""
        return {place: entry for entry in self.grid for place in entry.places()}

    def map_settings(self, recipe: str, dataset: str) -> dict[str, Any]:
        """Where the map of when beams win is measured in a cell; nothing where there is none."""
        beams_map = self.scoring[recipe].beams_map
        if not beams_map:
            return {}
        return beams_map.model_dump() | {
            "skip": beams_map.skip.get(dataset, 0),
            "max_rejection": self.evaluation.max_rejection[0],
            "strategies": self.recipes[recipe].known_outcomes(max(beams_map.sizes)),
        }

    def as_run(self) -> dict[str, Any]:
        """The study in its own order, without what cannot change what exhibits and pages say."""
        left_out: Any = {
            "exhibits": True,
            "batch_questions": True,
            "recipes": {"__all__": {"batch_questions"}},
        }
        study = self.model_dump(mode="json", exclude=left_out) | {
            "exhibits": [],
            "batch_questions": 1,
        }
        # keys that say nothing are left out, as in records of studies from before these keys
        for dataset in study["datasets"].values():
            for key in ("normalizer", *TURNS):
                if dataset[key] is None:
                    del dataset[key]
        for scoring in study["scoring"].values():
            if not scoring["every_draw"]:
                del scoring["every_draw"]
        for model in study["models"].values():
            if model["tokenizer"] is None:
                del model["tokenizer"]
        return study

    def qualities(self, dataset: str) -> list[Quality]:
        """Those that are measured on a dataset, the main one first."""
        return [
            quality
            for quality in self.quality
            if quality.datasets is None or dataset in quality.datasets
        ]

    @model_validator(mode="after")
    def _grid_names_what_there_is_and_each_cell_once(self) -> Study:
        entry_of_place: dict[tuple[str, str, str], int] = {}
        for position, entry in enumerate(self.grid):
            where = f"grid[{position}]"
            known(f"{where}.recipe", [entry.recipe], self.recipes)
            for key in ("models", "datasets", "scorers"):
                known(f"{where}.{key}", getattr(entry, key), getattr(self, key))
            for dataset in entry.datasets:
                if entry.questions and entry.questions > self.datasets[dataset].questions:
                    raise ValueError(
                        f"{where}.questions: {entry.questions} is more than "
                        f"datasets.{dataset}.questions "
                        f"({self.datasets[dataset].questions}); lower it or raise that one"
                    )
            for place in entry.places():
                if (first := entry_of_place.setdefault(place, position)) != position:
                    raise ValueError(
                        f"{where}: {'/'.join(place)} is already in grid[{first}]; drop one"
                    )
        return self

    @model_validator(mode="after")
    def _main_names_exist(self) -> Study:
        for position, quality in enumerate(self.quality):
            known(f"quality[{position}].datasets", quality.datasets or (), self.datasets)
        main = self.main
        known("main.recipe", [main.recipe], self.recipes)
        known("main.scorer", [main.scorer], self.scorers)
        known("main.relevance", [main.relevance] if main.relevance else [], self.scorers)
        known("scoring", self.scoring, self.recipes)
        decoded = self.recipes[main.recipe]
        for key, what, chosen, choices in (
            ("sample", "sample strategy", main.sample, decoded.samples()),
            ("beam", "search", main.beam, decoded.searches()),
        ):
            if chosen not in choices:
                fix = hint(chosen, choices) if choices else f"add recipes.{main.recipe}.{key}"
                raise ValueError(
                    f"main.{key}: {chosen!r} is no {what} of recipes.{main.recipe}; {fix}"
                )
        width = decoded.width(main.beam)
        if width not in (None, main.num_candidates):
            raise ValueError(
                f"main.num_candidates: {main.num_candidates} samples would stand beside the "
                f"{width} candidates of main.beam ({main.beam}); write num_candidates: {width}, or "
                "a beam of that width"
            )
        return self

    @model_validator(mode="after")
    def _every_decoded_recipe_is_scored(self) -> Study:
        """What scoring would find missing after all the decoding."""
        for recipe in dict.fromkeys([*(entry.recipe for entry in self.grid), self.main.recipe]):
            if recipe not in self.scoring:
                raise ValueError(
                    f"scoring: recipe {recipe!r} of the grid is not scored; add "
                    f"scoring.{recipe}.methods"
                )
            self._check_samples(recipe)
            self._check_answers(recipe)
        for recipe, scoring in self.scoring.items():
            self._check_beams_map(recipe, scoring.beams_map)
            self._check_budgets(recipe, scoring.budgets)
        return self

    def _check_samples(self, recipe: str) -> None:
        sample = self.recipes[recipe].sample
        is_main = self.main.sample in self.recipes[recipe].samples()
        if not sample or not (is_main or self.scoring[recipe].every_strategy):
            return
        if self.main.num_candidates > sample.size:
            raise ValueError(
                f"main.num_candidates: {self.main.num_candidates} is more than "
                f"recipes.{recipe}.sample.size ({sample.size}); lower it or raise that one"
            )

    def _check_answers(self, recipe: str) -> None:
        decoded = self.recipes[recipe].decoded
        beam = self.main.beam
        if not any(decoded(strategy_of(source, beam)) for source in self.answer_source):
            raise ValueError(
                f"answer_source: recipes.{recipe} decodes none of "
                f"{', '.join(self.answer_source)}; add greedy"
            )

    def _check_beams_map(self, recipe: str, beams_map: BeamsMap | None) -> None:
        if not beams_map:
            return
        known(f"scoring.{recipe}.beams_map.skip", beams_map.skip, self.datasets)
        largest = max(beams_map.sizes)
        if not self.recipes[recipe].known_outcomes(largest):
            raise ValueError(
                f"scoring.{recipe}.beams_map: needs all_above with draws and no lattices, and "
                f"exact.sizes of {largest} or more; add them to recipes.{recipe}"
            )

    def _check_budgets(self, recipe: str, budgets: list[int]) -> None:
        sample = self.recipes[recipe].sample
        beam = self.recipes[recipe].beam
        size = sample.size if sample else 0
        widths = beam.widths if beam else []
        for budget in budgets:
            if budget > size or budget not in widths:
                raise ValueError(
                    f"scoring.{recipe}.budgets: {budget} needs a beam of that width and as many "
                    f"samples; recipes.{recipe} has beam.widths {widths} and sample.size {size}"
                )


def known(key: str, names: Iterable[str], choices: Iterable[str]) -> None:
    """Refuse, with a suggestion, the first of ``names`` that is not among ``choices``."""
    choices = list(choices)
    for name in names:
        if name not in choices:
            raise ValueError(f"{key}: unknown name {name!r}; {hint(name, choices)}")


def load_study(path: Path) -> Study:
    """Read and check a study file, or the JSON that the workflow writes of one.

    Raises BeamUQError in one line: the file, the key, the value and the fix.
    """
    check_ends(path)
    again = "delete the file, and a run writes it anew"
    content = (
        parse_json(path.read_bytes(), path, again) if path.suffix == ".json" else read_yaml(path)
    )
    return validated(Study, content, path)


def study_path(name: str) -> Path:
    """``demo`` → ``studies/demo.yaml``; anything with a slash or a .yaml ending is taken as a path.

    Raises BeamUQError if there is no such file, or its name would not do as a folder's in the
    commands of the rules.
    """
    own = "/" in name or name.endswith((".yaml", ".yml"))
    path = Path(from_home(name) if own else os.path.relpath(STUDIES / f"{name}.yaml"))
    if not path.is_file():
        names = sorted(file.stem for file in STUDIES.glob("*.yaml"))
        fix = hint(name, names, ", or a path to your own file")
        raise BeamUQError(f"config.yaml: study: {json.dumps(name)}: no such study ({path}); {fix}")
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", path.stem):
        fix = "rename the file: letters, digits, '_', '-' and '.' only"
        raise BeamUQError(
            f"config.yaml: study: {json.dumps(name)}: names folders of results; {fix}"
        )
    return path
