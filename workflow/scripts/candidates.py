"""Prompts to candidates: every strategy of a recipe from one prefill, batch by batch."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

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
    """Decode every batch, or put together what the shards decoded; write the candidates in the
    order of the prompts.

    ``model``: a file in the model's folder (fetched.json or config.json). ``shard``: decode only
    this share of the questions ("2-of-4"). ``shards``: decode nothing, put these tables together.
    ``cards``: how many the model is spread over, where there are any.
    """
    asked = read_prompts(
        prompts, settings["style"], settings["cell"]["dataset"], settings["questions"]
    )
    kept = (candidates.parent if shard else candidates).with_suffix(".batches")
    write = partial(_write, candidates, settings["cell"], [row["id"] for row in asked], len(shards))
    if shards:
        batches, footer = finished_batches.marked(kept, shards)
        with batches.locked():
            complete = len(batches.finished()) == batches.count
        if complete:  # neither model nor card is needed
            write(batches, footer)
            return
        print(f"{batches.folder}: batches are missing and are decoded here", file=sys.stderr)

    from beamuq import decoding
    from beamuq.decoding.context_window import check_prompt_lengths, context_window
    from beamuq.models import devices, load_model, prompt_tokens
    from beamuq.models.model_folder import check_folder, identities

    device, dtype = devices.prepare(loading["device"], loading["dtype"], threads, cards)
    folder = model.parent
    check_folder(folder)
    models = identities({"model": folder}, loading["content"])
    tokenizer = load_model.load_tokenizer(
        folder
    )  # what is wrong with prompts is told before the weights are read
    tokens = {row["id"]: _token_ids(tokenizer, row, settings) for row in asked}
    network, tokenizer = load_model.load_causal(folder, dtype=dtype, device=device, cards=cards)
    if "temperature" in settings:
        load_model.temper(network, settings["temperature"])
    check_prompt_lengths(tokens, context_window(network), settings["max_new_tokens"])
    stops = decoding.stop_tokens(tokenizer, network, newline=settings["newline_stops"])
    merge_stop_tokens = (
        decoding.bare_stops(tokenizer, stops) if settings["merge_stop_tokens"] else frozenset()
    )
    policies = policies_of(
        Recipe.model_validate(settings["recipe"], strict=False), network.generation_config
    )
    footer = provenance(settings, {"prompts": prompts}, models=models, dtype=dtype, device=device)
    path = decoding.checked(network)
    print(f"{folder.name}: {path.summary}")
    self_check = {"self_check": {**asdict(path), "told": path.summary}}
    work = decoding.Work()
    thoughts: Counter[str] = Counter()  # by mark, the answers that begin with one

    def run_batch(batch: Sequence[decoding.Prompt]) -> BatchResult:
        before = work.prompt_rows + work.decoded_rows
        decoded = decoding.decode(
            network,
            batch,
            policies,
            stop_ids=stops,
            seed=settings["seed"],
            max_new_tokens=settings["max_new_tokens"],
            merge_stop_tokens=merge_stop_tokens,
            work=work,
        )
        text = cache(
            lambda ids: decoding.answer_text(
                tokenizer, ids, stops, newline=settings["newline_stops"]
            )
        )
        first = [candidate.token_ids for candidate in decoded if candidate.rank == 0]
        thoughts.update(
            mark for ids in first if (mark := prompt_tokens.mark_of_thought(tokenizer, ids))
        )
        rows = [
            candidate_row(candidate, text(candidate.token_ids), tokenizer) for candidate in decoded
        ]
        note = {} if work.pieces == [(len(batch), decoding.ROWS)] else {"pieces": work.pieces}
        return BatchResult(rows, work.prompt_rows + work.decoded_rows - before, note)

    batches = run_batches(
        decoding.compose_batches(
            [decoding.Prompt(key, ids) for key, ids in tokens.items()], settings["batch_questions"]
        ),
        run_batch,
        folder=kept,
        described=footer,
        share=shard or finished_batches.WHOLE,
    )
    for mark, count in thoughts.items():
        print(
            f"warning: {count} answers begin with a thought ({mark}), which is no answer; set "
            "enable_thinking: false, "
            "or close the thought in the template of a copy of the model",
            file=sys.stderr,
        )
    if shard:
        batches.write_marker(candidates, shard, footer | self_check)
    else:
        write(batches, footer | self_check)
    print(
        f"{work.prompts} questions: {work.prompt_tokens} prompt tokens, {work.prompt_rows} run; "
        f"{work.decoded_rows_unmerged} rows asked, {work.decoded_rows} decoded; "
        f"prefill {work.prefill_seconds:.1f} s, decoding {work.decode_seconds:.1f} s"
    )


def _token_ids(
    tokenizer: Any, row: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[int, ...]:
    """A prompt's tokens, in the model's chat template for an instruct model; one that ends in a
    thought is refused.
    """
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
    ids: list[str],
    shards: int,
    batches: FinishedBatches,
    footer: dict[str, Any],
) -> None:
    """Write the whole table in the order of the prompts, the order within a question kept; its
    batches then go.

    Its footer tells of batches that did not fit into memory whole: ``memory_cuts``, each with the
    number of the ``batch`` and its ``pieces``, pairs of questions and rows at once.
    """
    table, notes = batches.collected()
    if set(table.column("id").to_pylist()) != set(ids):
        raise BeamUQError(
            f"{batches.folder}: does not hold the questions asked for; delete it and run again"
        )
    place = {key: position for position, key in enumerate(ids)}
    table = table.take(
        np.argsort([place[key] for key in table.column("id").to_pylist()], kind="stable")
    )
    cuts = [{"batch": number, **note} for number, note in notes.items()]
    footer = footer | ({"memory_cuts": cuts} if cuts else {})
    parquet_tables.write(path, "candidates", table, cell=cell, provenance=footer)
    batches.discard()
    if record := cost_records.record_of(path):
        for file in cost_records.of_shards(record):
            if not file.stem.endswith(
                f"-of-{shards}"
            ):  # left by a run that decoded in another number of shards
                file.unlink(missing_ok=True)


if __name__ == "__main__":
    run_program(run, made="candidates")
