"""Prompts to candidates: every strategy of a recipe from one prefill, wave by wave."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from beamuq import tables
from beamuq.errors import BeamUQError
from beamuq.steps.entry import run
from beamuq.study import Recipe
from beamuq.text import clean


def main(argv: Sequence[str] | None = None) -> None:
    """Read the options, decode every wave, write the candidates in the order of the prompts."""
    parser = argparse.ArgumentParser(prog="beamuq.steps.candidates", description=__doc__)
    parser.add_argument("--prompts", type=Path, required=True, help="table of prompts")
    parser.add_argument("--model", type=Path, required=True, help="a file in the model's folder (fetched.json)")
    parser.add_argument("--settings", required=True, help="JSON: the recipe and how it is decoded")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--dtype", default="auto", help="auto, float32 or bfloat16")
    parser.add_argument("--memory-mb", type=int, default=4000, help="what the job may take")
    parser.add_argument("--candidates", type=Path, required=True, help="table to write")
    options = parser.parse_args(argv)
    settings: dict[str, Any] = json.loads(options.settings)
    cell: dict[str, str] = settings["cell"]

    prompts = tables.read(options.prompts, "prompts")
    if prompts.cell["dataset"] != cell["dataset"]:
        raise BeamUQError(f"{options.prompts}: holds prompts of {prompts.cell['dataset']!r}, not {cell['dataset']!r}")
    asked = prompts.table.slice(0, settings["questions"]).to_pylist()
    if len(asked) < settings["questions"]:
        raise BeamUQError(f"{options.prompts}: holds {len(asked)} prompts, {settings['questions']} are asked for")

    import torch

    from beamuq import decoding
    from beamuq.models import causal, devices

    torch.set_num_threads(1)
    device, dtype = devices.resolve(options.device, options.dtype)
    folder = options.model.parent
    model, tokenizer = causal.load_causal(folder, dtype=dtype, device=device)
    tokens = {row["id"]: tuple(_prompt_ids(tokenizer, row["prompt"], settings)) for row in asked}
    causal.check_prompt_lengths(tokens, causal.context_window(model), settings["max_new_tokens"])
    stops = decoding.stop_tokens(tokenizer, model, newline=settings["newline_stops"])
    policies = policies_of(Recipe.model_validate(settings["recipe"]))

    rows: dict[str, list[dict[str, Any]]] = {}
    work = decoding.Work()
    waves = wave_composition([decoding.Prompt(id, ids) for id, ids in tokens.items()], settings["wave"])
    for number, wave in enumerate(waves):
        found = decoding.decode(
            model,
            wave,
            policies,
            stop_ids=stops,
            seed=settings["seed"],
            max_new_tokens=settings["max_new_tokens"],
            work=work,
        )
        for candidate in found:
            rows.setdefault(candidate.prompt_id, []).append(_row(candidate, tokenizer, stops))
        print(f"wave {number + 1} of {len(waves)}: {len(wave)} questions", flush=True)
    tables.write(
        options.candidates,
        "candidates",
        [row for question in asked for row in rows[question["id"]]],
        cell=cell,
        provenance={
            "settings": settings,
            "model": causal.model_identity(folder),
            "prompts": prompts.provenance,
            "device": device.type,
            "dtype": str(dtype).removeprefix("torch."),
            "torch": torch.__version__.split("+")[0],
        },
    )
    print(
        f"{work.prompts} questions: {work.prompt_tokens} prompt tokens, {work.prompt_rows} run; "
        f"{work.decoded_rows_unmerged} rows asked, {work.decoded_rows} decoded; "
        f"prefill {work.prefill_seconds:.1f} s, decoding {work.decode_seconds:.1f} s"
    )


def policies_of(recipe: Recipe) -> list[Any]:
    """A recipe's policies, greedy first, in the order of ``Recipe.strategies``."""
    from beamuq.decoding import Beam, Greedy, Sample

    policies: list[Any] = [Greedy()]
    if recipe.sample:
        policies += [Sample(recipe.sample.size, float(t)) for t in recipe.sample.temperatures]
    if recipe.beam:
        beam = recipe.beam
        policies += [Beam(width, beam.length_penalty, beam.early_stopping) for width in beam.widths]
    return policies


def wave_composition(prompts: list[Any], size: int) -> list[list[Any]]:
    """Waves of at most ``size`` prompts, sorted by their tokens so that those that share prefixes meet."""
    ordered = sorted(prompts, key=lambda prompt: (prompt.token_ids, prompt.id))
    return [ordered[first : first + size] for first in range(0, len(ordered), size)]


def _prompt_ids(tokenizer: Any, prompt: str, settings: dict[str, Any]) -> list[int]:
    from beamuq.models import causal

    if settings["style"] == "instruct":
        return causal.chat_prompt_ids(tokenizer, prompt, settings["enable_thinking"])
    return causal.plain_prompt_ids(tokenizer, prompt)


def _row(candidate: Any, tokenizer: Any, stops: frozenset[int]) -> dict[str, Any]:
    from beamuq.decoding import candidate_text, token_texts

    tops = candidate.top_ids
    return {
        "id": candidate.prompt_id,
        "strategy": candidate.strategy,
        "rank": candidate.rank,
        "text": clean(candidate_text(tokenizer, candidate.token_ids, stops)),
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
    }


if __name__ == "__main__":
    run(main)
