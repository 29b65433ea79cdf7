"""Prompts to candidates: every strategy of a recipe from one prefill, batch by batch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np

from beamuq import parquet_tables, plugins
from beamuq.decoding import finished_batches
from beamuq.decoding.finished_batches import FinishedBatches
from beamuq.errors import BeamUQError
from beamuq.plan.job_types import CandidatesJob, CandidatesSettings, MachineOptions
from beamuq.provenance import provenance
from beamuq.steps.prompts import rendered
from beamuq.strategy_names import GREEDY, parse
from beamuq.study_config import PROMPTS, CustomStrategy, Recipe
from beamuq.text_normalization import clean


def run(job: CandidatesJob, machine: MachineOptions) -> None:
    """Decode every batch, or put together what the shards decoded; write the candidates in the order of the prompts."""
    settings = job.settings
    cell = settings.cell
    prompts = parquet_tables.read(job.prompts, "prompts")
    if prompts.cell["dataset"] != cell["dataset"]:
        raise BeamUQError(f"{job.prompts}: holds prompts of {prompts.cell['dataset']!r}, not {cell['dataset']!r}")
    _check_prompts(prompts, settings)
    asked = prompts.table.slice(0, settings.questions).to_pylist()
    if len(asked) < settings.questions:
        raise BeamUQError(f"{job.prompts}: holds {len(asked)} prompts, {settings.questions} are asked for")

    kept = job.candidates.with_suffix(".batches")
    if job.shards:
        batches, made = finished_batches.marked(kept, "candidates", job.shards)
        with batches.locked():
            complete = len(batches.finished()) == batches.count
        if complete:  # neither model nor card is needed
            _write(job, batches, [row["id"] for row in asked], made)
            return
        print(f"{batches.folder}: batches are missing and are decoded here", file=sys.stderr)
    elif job.shard:
        kept = job.candidates.parent.with_suffix(".batches")

    from beamuq import decoding
    from beamuq.models import devices, load_model, prompt_tokens
    from beamuq.models.model_folder import check_folder, identities

    device, dtype = devices.prepare(job.device, job.dtype, machine.threads, machine.cards)
    folder = job.model.parent
    check_folder(folder)
    models = identities({"model": folder}, job.folders)
    tokenizer = load_model.load_tokenizer(folder)  # what is wrong with prompts is told before the weights are read
    tokens = {row["id"]: tuple(_prompt_ids(tokenizer, row["prompt"], settings)) for row in asked}
    model, tokenizer = load_model.load_causal(folder, dtype=dtype, device=device, cards=machine.cards)
    prompt_tokens.check_prompt_lengths(tokens, prompt_tokens.context_window(model), settings.max_new_tokens)
    stops = decoding.stop_tokens(tokenizer, model, newline=settings.newline_stops)
    merge_stop_tokens = decoding.bare_stops(tokenizer, stops) if settings.merge_stop_tokens else frozenset()
    policies = policies_of(Recipe.model_validate(settings.recipe, strict=False), model.generation_config)
    made = provenance(
        settings.model_dump(mode="json"),
        {"prompts": job.prompts},
        models=models,
        dtype=dtype,
        device=device,
    )
    path = decoding.checked(model)
    print(f"{folder.name}: {path.told}")
    said = {"self_check": {**asdict(path), "told": path.told}}
    work = decoding.Work()

    def run_batch(batch: Sequence[decoding.Prompt]) -> decoding.BatchResult:
        before = work.prompt_rows + work.decoded_rows
        found = decoding.decode(
            model,
            batch,
            policies,
            stop_ids=stops,
            seed=settings.seed,
            max_new_tokens=settings.max_new_tokens,
            merge_stop_tokens=merge_stop_tokens,
            work=work,
        )
        text = cache(lambda ids: clean(decoding.candidate_text(tokenizer, ids, stops)))
        rows = [candidate_row(candidate, text(candidate.token_ids), tokenizer) for candidate in found]
        note = {} if work.pieces == [(len(batch), decoding.ROWS)] else {"pieces": work.pieces}
        return decoding.BatchResult(rows, work.prompt_rows + work.decoded_rows - before, note)

    batches = decoding.run_batches(
        decoding.compose_batches([decoding.Prompt(key, ids) for key, ids in tokens.items()], settings.batch_questions),
        run_batch,
        folder=kept,
        kind="candidates",
        described=made,
        share=job.shard or finished_batches.WHOLE,
    )
    if job.shard:
        batches.write_marker(job.candidates, job.shard, made | said)
    else:
        _write(job, batches, list(tokens), made | said)
    print(
        f"{work.prompts} questions: {work.prompt_tokens} prompt tokens, {work.prompt_rows} run; "
        f"{work.decoded_rows_unmerged} rows asked, {work.decoded_rows} decoded; "
        f"prefill {work.prefill_seconds:.1f} s, decoding {work.decode_seconds:.1f} s"
    )


def _check_prompts(prompts: parquet_tables.Loaded, settings: CandidatesSettings) -> None:
    """Refuse prompts that the questions and examples of the same study would not give: they are of another run.

    The footer of prompts tells of no run, so they are rendered again, where the study's files and template are here.
    """
    dataset, results = settings.cell["dataset"], prompts.path.parent.parent.parent
    questions, shots = (results / parquet_tables.Artifact(kind, dataset).path for kind in ("questions", "shots"))
    if not questions.is_file() or not shots.is_file():
        return
    adapter = parquet_tables.read_footer(questions).provenance.get("settings", {}).get("adapter")
    template = PROMPTS / settings.style / f"{adapter}.txt"
    if not template.is_file() or parquet_tables.file_sha256(template) != prompts.provenance.get("template_sha256"):
        return
    if rendered(template, questions, shots, dataset, {}) != prompts.table.to_pylist():
        raise BeamUQError(
            f"{prompts.path}: not the prompts that {questions} and {shots} give, but another run's; "
            "delete it and run again"
        )


def policies_of(recipe: Recipe, shipped: Any) -> list[Any]:
    """A recipe's policies, in the order of ``Recipe.strategies``; ``shipped`` is the model's generation config."""
    custom = {each.strategy: each for each in recipe.custom or ()}
    return [_custom(custom[name]) if name in custom else _policy(name, recipe, shipped) for name in recipe.strategies()]


def _policy(name: str, recipe: Recipe, shipped: Any) -> Any:
    from beamuq.decoding import (
        Above,
        Beam,
        DiverseBeam,
        Exact,
        Greedy,
        Hybrid,
        NeverWorse,
        Sample,
        Shipped,
        Stochastic,
        Systematic,
    )

    kind, of = parse(name)
    if kind == "sample" and recipe.sample:
        return Sample(recipe.sample.size, of["T"])
    if kind == "beam" and recipe.beam:
        return Beam(int(of["M"]), recipe.beam.length_penalty, recipe.beam.early_stopping)
    if kind == "diverse" and recipe.diverse:
        return DiverseBeam(recipe.diverse.size, int(of["G"]), of["lambda"])
    if kind == "hybrid" and recipe.hybrid:
        return Hybrid(recipe.hybrid.size, int(of["B"]))
    if kind == "exact" and recipe.exact:
        return Exact(int(of["M"]), recipe.exact.rows)
    if kind == "above" and recipe.above:
        return Above(recipe.above.p, recipe.above.draws, recipe.above.lattices, recipe.above.rows)
    if kind == "systematic":
        return Systematic(int(of["M"]))
    if kind == "stochastic":
        return Stochastic(int(of["M"]))
    if kind == "neverworse" and recipe.never_worse:
        return NeverWorse(int(of["M"]), False, recipe.never_worse.rows)
    if kind == "adaptive" and recipe.adaptive:
        return NeverWorse(int(of["M"]), True, recipe.adaptive.rows)
    return Greedy() if kind == GREEDY else Shipped.of(shipped)


def _custom(custom: CustomStrategy) -> Any:
    from beamuq.decoding.custom_search import check_custom

    what = f"policy {custom.policy!r} with options {custom.options}"
    make = plugins.load("policy", custom.policy)
    policy = plugins.call(what, lambda: make(**custom.options))
    plugins.call(what, check_custom, custom.policy, policy)
    if policy.strategy != custom.strategy:
        raise BeamUQError(f"policy {custom.policy!r}: calls itself {policy.strategy!r}, the study {custom.strategy!r}")
    return policy


def _write(job: CandidatesJob, batches: FinishedBatches, ids: list[str], made: dict[str, Any]) -> None:
    """Write the whole table in the order of the prompts, the order within a question kept; its batches then go.

    Its footer tells of batches that did not fit into memory whole: ``memory_cuts``, each with the number of the
    ``batch`` and its ``pieces``, pairs of questions and rows at once.
    """
    table, notes = batches.collected()
    held = table.column("id").to_pylist()
    if set(held) != set(ids):
        raise BeamUQError(f"{batches.folder}: does not hold the questions asked for; delete it and run again")
    cuts = [{"batch": number, **note} for number, note in notes.items()]
    place = {key: position for position, key in enumerate(ids)}
    table = table.take(np.argsort([place[key] for key in held], kind="stable"))
    made = made | ({"memory_cuts": cuts} if cuts else {})
    parquet_tables.write(job.candidates, "candidates", table, cell=job.settings.cell, provenance=made)
    batches.discard()
    _forget_other_shards(job)


def _forget_other_shards(job: CandidatesJob) -> None:
    """Delete what shards took that this table was not made of: its bytes never tell in how many it was decoded."""
    if job.shard_benchmarks is not None:
        for file in job.shard_benchmarks.glob("*.tsv"):
            if not file.stem.endswith(f"-of-{len(job.shards)}"):
                file.unlink(missing_ok=True)


def _prompt_ids(tokenizer: Any, prompt: str, settings: CandidatesSettings) -> list[int]:
    from beamuq.models import prompt_tokens

    if settings.style == "instruct":
        return prompt_tokens.chat_prompt_ids(tokenizer, prompt, settings.enable_thinking)
    return prompt_tokens.plain_prompt_ids(tokenizer, prompt)


def candidate_row(candidate: Any, text: str, tokenizer: Any) -> dict[str, Any]:
    """A decoded candidate as a row of the table of candidates; ``text``: what it says, cleaned."""
    from beamuq.decoding import token_texts

    tops, effort = candidate.top_ids, candidate.effort
    return {
        "id": candidate.prompt_id,
        "strategy": candidate.strategy,
        "rank": candidate.rank,
        "text": text,
        "token_ids": list(candidate.token_ids),
        "token_texts": token_texts(tokenizer, candidate.token_ids),
        "token_logprobs": candidate.token_logprobs.tolist(),
        "logprob": candidate.logprob,
        "policy_logprob": candidate.policy_logprob,
        "terminated": candidate.terminated,
        "entropies": None if candidate.entropies is None else candidate.entropies.tolist(),
        "top_ids": None if tops is None else [list(step) for step in tops],
        "top_texts": None if tops is None else [token_texts(tokenizer, step) for step in tops],
        "top_logprobs": None if tops is None else [list(step) for step in candidate.top_logprobs],
        "search_rows": None if effort is None else effort.rows,
        "search_passes": None if effort is None else effort.passes,
        "proven": None if effort is None else effort.proven,
        "missed_logprob": None if effort is None else effort.missed_logprob,
    }
