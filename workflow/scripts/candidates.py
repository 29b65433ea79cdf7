"""Prompts to candidates: every strategy of a recipe from one prefill, batch by batch."""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from beamuq.errors import BeamUQError
from beamuq_study import cost_records, parquet_tables
from beamuq_study.data.render_prompts import read_prompts
from beamuq_study.provenance import provenance
from beamuq_study.rule_programs import run_program
from beamuq_study.stages import finished_batches
from beamuq_study.stages.finished_batches import BatchResult, FinishedBatches, run_batches
from beamuq_study.stages.recipe_to_policies import candidate_row, policies_of
from beamuq_study.study_config import Recipe

if TYPE_CHECKING:
    from beamuq import decoding


def run(
    *,
    prompts: Path,
    model: Path,
    shards: tuple[Path, ...] = (),
    shard: str | None = None,
    settings: dict[str, Any],
    loading: dict[str, Any],
    cards: int = 1,
    threads: int = 1,
    candidates: Path,
) -> None:
    """Decode every batch, or put together what the shards decoded, and write the candidates.

    ``model``: a file in the model's folder (fetched.json or config.json). ``shard``: decode only
    this share of the questions ("2-of-4"). ``shards``: decode nothing, put these tables together.
    ``cards``: how many the model is spread over, where there are any.
    """
    rows = read_prompts(
        prompts, settings["style"], settings["cell"]["dataset"], settings["questions"]
    )
    folder = (candidates.parent if shard else candidates).with_suffix(".batches")
    if shards:
        batches, footer = finished_batches.marked(folder, shards)
        with batches.locked():
            complete = len(batches.finished()) == batches.count
        if complete:  # neither model nor card is needed
            _write(candidates, settings["cell"], rows, batches, footer)
            _forget_other_shards(candidates, len(shards))
            return
        print(f"{batches.folder}: batches are missing and are decoded here", file=sys.stderr)

    decoder = _Decoder(model.parent, rows, settings, loading, threads, cards)
    footer = provenance(
        settings,
        {"prompts": prompts},
        models=decoder.models,
        dtype=decoder.dtype,
        device=decoder.device,
    )
    print(f"{model.parent.name}: {decoder.path.summary}")
    batches = run_batches(
        decoder.batches(),
        decoder.decoded,
        folder=folder,
        described=footer,
        share=shard or finished_batches.WHOLE,
    )
    decoder.warn_of_thoughts()
    footer["self_check"] = {**asdict(decoder.path), "told": decoder.path.summary}
    if shard:
        batches.write_marker(candidates, shard, footer)
    else:
        _write(candidates, settings["cell"], rows, batches, footer)
        _forget_other_shards(candidates, len(shards))
    print(decoder.effort())


class _Decoder:
    """A language model with what it is asked; imports what decodes when one is made.

    Prompts, and what is wrong with them, come before the weights, which take longest to read.
    """

    def __init__(
        self,
        folder: Path,
        rows: Sequence[Mapping[str, Any]],
        settings: Mapping[str, Any],
        loading: Mapping[str, Any],
        threads: int,
        cards: int,
    ) -> None:
        from beamuq import decoding
        from beamuq.decoding.context_window import check_prompt_lengths, context_window
        from beamuq.models import devices, load_model
        from beamuq.models.model_folder import check_folder, identities

        self.device, self.dtype = devices.prepare(
            loading["device"], loading["dtype"], threads, cards
        )
        check_folder(folder)
        self.models = identities({"model": folder}, loading["content"])
        tokenizer = load_model.load_tokenizer(folder)
        self._tokens = {row["id"]: _token_ids(tokenizer, row, settings) for row in rows}
        self._network, self._tokenizer = load_model.load_causal(
            folder, dtype=self.dtype, device=self.device, cards=cards
        )
        if "temperature" in settings:
            load_model.temper(self._network, settings["temperature"])
        context = context_window(self._network)
        check_prompt_lengths(self._tokens, context, settings["max_new_tokens"])
        self._settings = settings
        self._stops = decoding.stop_tokens(
            self._tokenizer, self._network, newline=settings["newline_stops"]
        )
        self._merged_stops: frozenset[int] = frozenset()
        if settings["merge_stop_tokens"]:
            self._merged_stops = decoding.bare_stops(self._tokenizer, self._stops)
        recipe = Recipe.model_validate(settings["recipe"], strict=False)
        self._policies = policies_of(recipe, self._network.generation_config)
        self.path = decoding.checked(self._network)
        self._work = decoding.Work()
        self._thoughts: Counter[str] = Counter()  # by mark, the answers that begin with one

    def batches(self) -> "list[list[decoding.Prompt]]":
        """The prompts, cut into the batches that are decoded together."""
        from beamuq import decoding

        prompts = [decoding.Prompt(key, ids) for key, ids in self._tokens.items()]
        return decoding.compose_batches(prompts, self._settings["batch_questions"])

    def decoded(self, batch: "Sequence[decoding.Prompt]") -> BatchResult:
        """Every strategy's candidates of a batch, as rows of the table of candidates."""
        from beamuq import decoding

        settings = self._settings
        work = self._work
        rows_before = work.prompt_rows + work.decoded_rows
        candidates = decoding.decode(
            self._network,
            batch,
            self._policies,
            stop_ids=self._stops,
            seed=settings["seed"],
            max_new_tokens=settings["max_new_tokens"],
            merge_stop_tokens=self._merged_stops,
            work=work,
        )
        self._count_thoughts(candidates)
        texts = self._texts({candidate.token_ids for candidate in candidates})
        rows = [
            candidate_row(candidate, texts[candidate.token_ids], self._tokenizer)
            for candidate in candidates
        ]
        whole = work.pieces == [(len(batch), decoding.ROWS)]
        note = {} if whole else {"pieces": work.pieces}
        return BatchResult(rows, work.prompt_rows + work.decoded_rows - rows_before, note)

    def _texts(self, sequences: Iterable[tuple[int, ...]]) -> dict[tuple[int, ...], str]:
        """What each sequence of tokens says, cleaned."""
        from beamuq import decoding

        newline = self._settings["newline_stops"]
        return {
            ids: decoding.answer_text(self._tokenizer, ids, self._stops, newline=newline)
            for ids in sequences
        }

    def _count_thoughts(self, candidates: "Sequence[decoding.Candidate]") -> None:
        from beamuq.models import prompt_tokens

        for candidate in candidates:
            if candidate.rank == 0:
                mark = prompt_tokens.mark_of_thought(self._tokenizer, candidate.token_ids)
                if mark:
                    self._thoughts[mark] += 1

    def warn_of_thoughts(self) -> None:
        """Say in the job's log how many answers begin with a thought."""
        for mark, count in self._thoughts.items():
            print(
                f"warning: {count} answers begin with a thought ({mark}), which is no answer; set "
                "enable_thinking: false, or close the thought in the template of a copy of the "
                "model",
                file=sys.stderr,
            )

    def effort(self) -> str:
        """What was run, as the job's log says it."""
        work = self._work
        return (
            f"{work.prompts} questions: {work.prompt_tokens} prompt tokens, {work.prompt_rows} "
            f"run; {work.decoded_rows_unmerged} rows asked, {work.decoded_rows} decoded; "
            f"prefill {work.prefill_seconds:.1f} s, decoding {work.decode_seconds:.1f} s"
        )


def _token_ids(
    tokenizer: Any, row: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[int, ...]:
    """A prompt's tokens, through the chat template if instruct; no open thought."""
    from beamuq.models import prompt_tokens

    place = f"prompt {row['id']!r}"
    if settings["style"] == "instruct":
        thinking = settings["enable_thinking"]
        return tuple(prompt_tokens.chat_prompt_ids(tokenizer, row["prompt"], thinking, place=place))
    prompt_tokens.check_no_open_thought(tokenizer, row["prompt"], place)
    return tuple(prompt_tokens.plain_prompt_ids(tokenizer, row["prompt"]))


def _write(
    path: Path,
    cell: dict[str, str],
    rows: Sequence[Mapping[str, Any]],
    batches: FinishedBatches,
    footer: dict[str, Any],
) -> None:
    """Write the whole table in the order of the prompts, ``rows``; its batches then go.

    The order within a question is kept. The footer tells of batches that did not fit into memory
    whole: ``memory_cuts``, each with the number of the ``batch`` and its ``pieces``, pairs of
    questions and rows at once.
    """
    position = {row["id"]: place for place, row in enumerate(rows)}
    table, notes = batches.collected()
    questions = table.column("id").to_pylist()
    if set(questions) != position.keys():
        raise BeamUQError(
            f"{batches.folder}: does not hold the questions asked for; delete it and run again"
        )
    order = np.argsort([position[key] for key in questions], kind="stable")
    if notes:
        footer = footer | {"memory_cuts": [{"batch": n, **note} for n, note in notes.items()]}
    parquet_tables.write(path, "candidates", table.take(order), cell=cell, provenance=footer)
    batches.discard()


def _forget_other_shards(path: Path, count: int) -> None:
    """Delete what shards of a run that decoded in another number of them took."""
    record = cost_records.record_of(path)
    if record is None:
        return
    for file in cost_records.of_shards(record):
        if not file.stem.endswith(f"-of-{count}"):
            file.unlink(missing_ok=True)


if __name__ == "__main__":
    run_program(run, output="candidates")
