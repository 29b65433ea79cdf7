"""Ask the models what PTrue, CCP and SAR need to know of the answers."""

import gc
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from beamuq.errors import BeamUQError
from beamuq.models import devices
from beamuq.models.load_model import load_causal, load_tokenizer
from beamuq.models.model_folder import identities
from beamuq.scorers.judgements import (
    PTrueQuery,
    ccp_labels,
    load_template,
    p_true_logprobs,
    token_relevances,
)
from beamuq.scorers.scorer_protocol import SimilarityScorer
from beamuq.scorers.similarity_by_kind import load_scorer
from beamuq_study import parquet_tables, served_models
from beamuq_study.produced_answers import produced_texts, strategy_of
from beamuq_study.provenance import newline_ended, provenance, read_cell
from beamuq_study.rule_programs import run_program

Row = dict[str, Any]
JUDGES = {"nli": "ccp", "relevance": "relevance"}  # models by what the settings call their use
COLUMNS = ["id", "strategy", "rank", "text", "token_ids", "terminated", "top_ids", "top_texts"]


def run(
    *,
    questions: Path,
    candidates: Path,
    template: Path | None = None,
    language_model: Path | None = None,
    nli: Path | None = None,
    relevance: Path | None = None,
    settings: dict[str, Any],
    made_with: dict[str, Any],
    loading: dict[str, Any],
    cards: int = 1,
    cache: Path | None = None,
    threads: int = 1,
    judgements: Path,
) -> None:
    """Ask models about a cell's answers and write ``judgements``, the table of what they say.

    The settings say for which methods models are asked:

    - P(True): how probable the language model finds it that an answer is true.
    - CCP, claim-conditioned probability: what an answer's tokens and their alternatives entail of
      each other.
    - SAR, shifting attention to relevance: how much each token counts. The language model's
      tokenizer is needed to leave tokens out.

    A language model that a server holds, which the settings name, is asked there.

    Models are loaded one after another. A model is given as any file in its folder, exactly where
    the settings ask for it: ``language_model`` gave the answers, ``nli`` judges for CCP and
    ``relevance`` for SAR. ``template`` is the prompt of P(True).

    ``made_with``: the settings that ``questions`` and ``candidates`` must have been made with.
    ``loading``: the device, the dtypes and the contents that the models must have. ``cards``: how
    many GPUs the language model is spread over. ``cache``: the folder of pairs scored before.
    """
    tables = {"questions": questions, "candidates": candidates}
    files = {"language_model": language_model, "nli": nli, "relevance": relevance}
    cell = _read_cell(tables, settings, made_with)
    models = _Models(
        {name: file.parent if file else None for name, file in files.items()},
        settings,
        loading,
        cache,
        threads,
        cards if settings["p_true"] else 1,
    )
    models.check_answered(cell.candidates)
    rows = cell.rows()
    if template and settings["p_true"] and language_model:
        _set_column(rows, "p_true_logprob", models.p_true_logprobs(cell, template))
        gc.collect()
    if settings["ccp"]:
        _set_column(rows, "ccp_labels", models.ccp_labels(cell))
        gc.collect()
    if settings["relevance"] and language_model:
        _set_column(rows, "token_relevances", models.token_relevances(cell))
    footer = provenance(
        settings,
        tables | {"template": template},
        models=models.identities,
        dtype=models.dtype,
        device=models.device,
    )
    footer |= models.facts
    # the judges may run in a dtype of their own
    if "scorer_dtype" in loading:
        footer["scorer_dtype"] = loading["scorer_dtype"]
    parquet_tables.write(
        judgements, "judgements", rows, cell=cell.candidates.cell, provenance=footer
    )


@dataclass(frozen=True)
class _Cell:
    """What is judged of a cell.

    ``questions``: rows by id. ``answers``: the rows of the produced answers, each with the name of
    its source. ``others``: the rows of the candidates whose tokens are judged for SAR.
    """

    candidates: parquet_tables.Loaded
    questions: Mapping[str, Row]
    answers: list[tuple[str, Row]]
    others: list[Row]

    @property
    def answer_rows(self) -> list[Row]:
        return [row for _, row in self.answers]

    def rows(self) -> list[Row]:
        """The rows of the table of judgements, answers first, without what is judged."""
        answers = [
            {
                "id": row["id"],
                "answer_source": source,
                "candidate_strategy": "",
                "candidate_rank": 0,
            }
            for source, row in self.answers
        ]
        of_candidates = [
            {
                "id": row["id"],
                "answer_source": "",
                "candidate_strategy": row["strategy"],
                "candidate_rank": row["rank"],
            }
            for row in self.others
        ]
        return answers + of_candidates


def _read_cell(
    tables: Mapping[str, Path], settings: Mapping[str, Any], made_with: Mapping[str, Any]
) -> _Cell:
    """Raises BeamUQError if a question, a produced answer or a main strategy is missing."""
    read = read_cell(tables, made_with)
    candidates = read["candidates"]
    questions = {row["id"]: row for row in read["questions"].table.to_pylist()}
    unknown = set(candidates.table.column("id").to_pylist()) - questions.keys()
    if unknown:
        raise BeamUQError(
            f"{tables['candidates']}: id {min(unknown)!r} is not in {tables['questions']}; make "
            "both anew"
        )
    main = [settings["sample"], settings["beam"]]
    strategies = [name for name in main if name and settings["relevance"]]
    return _Cell(
        candidates,
        questions,
        _produced_answers(candidates.table, settings),
        _candidates_of(candidates.table, strategies),
    )


def _produced_answers(candidates: pa.Table, settings: Mapping[str, Any]) -> list[tuple[str, Row]]:
    """The rows of the produced answers, each with the name of its source."""
    beam = settings["beam"]
    texts = produced_texts(candidates, settings["answer_source"], beam)
    strategies = {source: strategy_of(source, beam) for source in texts}
    of_rank_0 = candidates.filter(pc.equal(candidates.column("rank"), 0))
    rows = _rows_of(of_rank_0, strategies.values())
    first = {(row["strategy"], row["id"]): row for row in rows}
    return [
        (source, first[strategies[source], question])
        for source, text_by_question in texts.items()
        for question in text_by_question
    ]


def _candidates_of(candidates: pa.Table, strategies: list[str]) -> list[Row]:
    """All rows of some strategies. Raises BeamUQError if there are none of one."""
    rows = _rows_of(candidates, strategies)
    missing = set(strategies) - {row["strategy"] for row in rows}
    if missing:
        raise BeamUQError(f"candidates: hold no {min(missing)!r}; decode it, or set it to null")
    return rows


def _rows_of(candidates: pa.Table, strategies: Collection[str]) -> list[Row]:
    values = pa.array(list(strategies), pa.string())
    chosen = pc.is_in(candidates.column("strategy"), value_set=values)
    rows: list[Row] = candidates.select(COLUMNS).filter(chosen).to_pylist()
    return rows


class _Models:
    """The models that a job asks, each loaded for one judgement and let go after it.

    ``folders``: by the job's name for each model, None where it is not loaded. ``cards``: how many
    the language model is spread over.
    """

    def __init__(
        self,
        folders: Mapping[str, Path | None],
        settings: Mapping[str, Any],
        loading: Mapping[str, Any],
        cache: Path | None,
        threads: int,
        cards: int,
    ) -> None:
        self._folders = folders
        self._settings = settings
        self._cache = cache
        self._cards = cards
        self.facts: Row = {}
        self.device = self.dtype = self._scorer_dtype = None
        if "device" in loading:  # a server may hold the only model
            self.device, self.dtype = devices.prepare(
                loading["device"], loading["dtype"], threads, cards
            )
            scorer_dtype = loading.get("scorer_dtype", loading["dtype"])
            _, self._scorer_dtype = devices.resolve(loading["device"], scorer_dtype)
        plugins = [
            use for use, key in JUDGES.items() if settings[key] and ":" in settings[key]["kind"]
        ]
        self._server = settings.get("server")
        language_model = folders["language_model"]
        if self._server is None or language_model is None:
            self.identities = identities(folders, loading["content"], plugins)
            return
        planned = dict(loading["content"])
        planned_tokenizer = planned.pop("language_model", None)
        judges = {use: folder for use, folder in folders.items() if use != "language_model"}
        served = served_models.identity_of(self._server, language_model, planned_tokenizer)
        self.identities = {"language_model": served} | identities(judges, planned, plugins)

    def check_answered(self, candidates: parquet_tables.Loaded) -> None:
        """Raises BeamUQError if another language model than the one here gave the candidates."""
        recorded = candidates.provenance.get("models", {}).get("model")
        loaded = self.identities.get("language_model")
        if not recorded or not loaded:
            return
        if self._server is not None:
            self._check_served(recorded, loaded, candidates)
            return
        if recorded["content"] == loaded["content"]:
            return
        both = (
            f"content {loaded['content'][:12]}…, {candidates.path} was made with "
            f"{recorded['content'][:12]}…"
        )
        raise BeamUQError(
            f"{self._folders['language_model']}: is not the model that gave the answers ({both}); "
            "put that model back, or delete the candidates and run again"
        )

    def _check_served(
        self,
        recorded: Mapping[str, Any],
        loaded: Mapping[str, Any],
        candidates: parquet_tables.Loaded,
    ) -> None:
        """Raises BeamUQError if the candidates are of another server's name or tokenizer."""
        for fact in ("source", "tokenizer"):
            if recorded.get(fact) != loaded[fact]:
                raise BeamUQError(
                    f"{candidates.path}: was made with another {fact} ({recorded.get(fact)!r:.40}) "
                    f"than the study has ({loaded[fact]!r:.40}); delete it and run again"
                )

    def p_true_logprobs(self, cell: _Cell, template: Path) -> list[float]:
        """Of each produced answer."""
        style = self._settings["style"]
        thinking = self._settings["enable_thinking"]
        model, tokenizer = self._asked_model(cell.candidates)
        query = PTrueQuery(tokenizer, load_template(template), style, thinking)
        prompts = [
            (f"{row['id']} ({source})", cell.questions[row["id"]], row["text"])
            for source, row in cell.answers
        ]
        return list(p_true_logprobs(model, query, prompts))

    def _asked_model(self, candidates: parquet_tables.Loaded) -> tuple[Any, Any]:
        """The language model and its tokenizer, in memory or over its server.

        Raises BeamUQError if another server gave the candidates.
        """
        folder = self._language_model()
        if self._server is None:
            assert self.dtype is not None
            assert self.device is not None
            return load_causal(folder, dtype=self.dtype, device=self.device, cards=self._cards)
        from beamuq.api.server_identity import read_server

        tokenizer = load_tokenizer(folder)
        server = served_models.open_named(self._server, tokenizer, folder)
        identity = read_server(server.identity)
        differences = identity.differences(read_server(candidates.provenance["server"]))
        if differences:
            raise BeamUQError(
                f"{candidates.path}: another server gave it ({'; '.join(differences)}); start that "
                "one, or delete the candidates and run again"
            )
        self.facts["server"] = identity.model_dump(mode="json")
        return server, tokenizer

    def ccp_labels(self, cell: _Cell) -> list[list[list[str]]]:
        """Of each produced answer."""
        threshold = self._settings["ccp"]["equivalence_threshold"]
        return list(ccp_labels(cell.answer_rows, self._judge("nli"), threshold))

    def token_relevances(self, cell: _Cell) -> list[list[float]]:
        """Of each produced answer, then of the other candidates."""
        judge = self._judge("relevance")
        tokenizer = load_tokenizer(self._language_model())
        questions = {key: str(row["question"]) for key, row in cell.questions.items()}
        newline = newline_ended(cell.candidates)
        texts = [*cell.answer_rows, *cell.others]
        return list(token_relevances(texts, questions, tokenizer, judge, newline=newline))

    def _language_model(self) -> Path:
        folder = self._folders["language_model"]
        assert folder is not None
        return folder

    def _judge(self, use: str) -> SimilarityScorer:
        judge = self._settings[JUDGES[use]]
        return load_scorer(
            judge["kind"],
            self._folders[use],
            dtype=self._scorer_dtype,
            device=self.device,
            cache=self._cache,
            words=judge.get("words", "rouge"),
        )


def _set_column(rows: list[Row], name: str, values: list[Any]) -> None:
    """Set a column of the first rows: candidates, which come last, may have no value."""
    for row, value in zip(rows, values, strict=False):
        row[name] = value


if __name__ == "__main__":
    run_program(run, output="judgements")
