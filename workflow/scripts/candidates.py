"""Prompts to candidates: every strategy of a recipe from one prefill, batch by batch."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from beamuq.errors import BeamUQError
from beamuq_study import cost_records, parquet_tables, served_models
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

    ``model``: a file in the model's folder (fetched.json or config.json), or in that of a served
    model's tokenizer, whose server ``settings`` name. ``shard``: decode only
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

    prompts_read = _PromptTokens(model.parent, rows, settings)
    if "server" in settings:
        opened = _over_server(model.parent, prompts_read, settings, loading, folder)
    else:
        opened = _in_memory(model.parent, settings, loading, threads, cards)
    decoder = _Decoder(opened, prompts_read, settings)
    footer = provenance(
        settings,
        {"prompts": prompts},
        models=opened.models,
        dtype=opened.dtype,
        device=opened.device,
    )
    footer |= opened.facts
    print(f"{model.parent.name}: {opened.check['told']}")
    batches = run_batches(
        decoder.batches(),
        decoder.decoded,
        folder=folder,
        described=footer,
        share=shard or finished_batches.WHOLE,
    )
    decoder.warn_of_thoughts()
    footer["self_check"] = opened.check
    if shard:
        batches.write_marker(candidates, shard, footer)
    else:
        _write(candidates, settings["cell"], rows, batches, footer)
        _forget_other_shards(candidates, len(shards))
    print(decoder.effort())


class _PromptTokens:
    """The token ids of prompts by id, and the tokenizer.

    What is wrong with a prompt is said before the weights are read, which takes longest.
    """

    def __init__(
        self, folder: Path, rows: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]
    ) -> None:
        from beamuq.models.load_model import load_tokenizer
        from beamuq.models.model_folder import check_folder

        check_folder(folder, weights="server" not in settings)
        self.tokenizer = load_tokenizer(folder)
        self.by_id = {row["id"]: _token_ids(self.tokenizer, row, settings) for row in rows}


@dataclass(frozen=True)
class _Opened:
    """A language model, ready to decode, and what the footer says of it.

    ``check``: of how it decodes, in words under ``told``; ``facts``: further ones of the footer;
    ``window``: the most tokens of a prompt and its answer, None: not limited; ``dtype`` and
    ``device``: None where a server holds it.
    """

    network: Any
    models: Mapping[str, Mapping[str, Any]]
    check: Mapping[str, Any]
    window: int | None
    dtype: Any = None
    device: Any = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    is_still_the_same: Callable[[], bool] = lambda: True


def _in_memory(
    folder: Path,
    settings: Mapping[str, Any],
    loading: Mapping[str, Any],
    threads: int,
    cards: int,
) -> _Opened:
    from beamuq import decoding
    from beamuq.decoding.context_window import context_window
    from beamuq.models import devices, load_model
    from beamuq.models.model_folder import identities

    device, dtype = devices.prepare(loading["device"], loading["dtype"], threads, cards)
    models = identities({"model": folder}, loading["content"])
    network, _ = load_model.load_causal(folder, dtype=dtype, device=device, cards=cards)
    if "temperature" in settings:
        load_model.temper(network, settings["temperature"])
    path = decoding.checked(network)
    return _Opened(
        network=network,
        models=models,
        check={**asdict(path), "told": path.summary},
        window=context_window(network),
        dtype=dtype,
        device=device,
    )


def _over_server(
    folder: Path,
    prompts: _PromptTokens,
    settings: Mapping[str, Any],
    loading: Mapping[str, Any],
    batches: Path,
) -> _Opened:
    """The server that the settings name; ``batches``: where finished batches of the cell are."""
    from beamuq.api.server_identity import read_server

    name = settings["server"]
    planned = loading["content"].get("model")
    models = {"model": served_models.identity_of(name, folder, planned)}
    server = served_models.open_named(name, prompts.tokenizer, folder)
    identity = served_models.settled(batches, read_server(server.identity))
    listed = "every token"
    if server.most_listed < server.vocabulary:
        listed = f"{server.most_listed} tokens"
    named = f"{server.most_named} named ones" if server.most_named else "no named ones"
    way = (
        f"over {identity.kind} {identity.version}, which serves {identity.model!r} and lists "
        f"{listed} and {named}; its weights are unknown"
    )
    return _Opened(
        network=server,
        models=models,
        check={"path": "server", "told": way},
        window=server.window,
        facts={"server": identity.model_dump(mode="json")},
        is_still_the_same=server.is_still_as_checked,
    )


class _Decoder:
    """A language model with what it is asked; imports what decodes when one is made."""

    def __init__(
        self, opened: _Opened, prompts: _PromptTokens, settings: Mapping[str, Any]
    ) -> None:
        from beamuq import decoding
        from beamuq.decoding.context_window import check_prompt_lengths

        self._tokens = prompts.by_id
        self._opened = opened
        self._network = opened.network
        self._tokenizer = prompts.tokenizer
        check_prompt_lengths(self._tokens, opened.window, settings["max_new_tokens"])
        self._settings = settings
        self._stops = decoding.stop_tokens(
            self._tokenizer, self._network, newline=settings["newline_stops"]
        )
        self._merged_stops: frozenset[int] = frozenset()
        if settings["merge_stop_tokens"]:
            self._merged_stops = decoding.bare_stops(self._tokenizer, self._stops)
        recipe = Recipe.model_validate(settings["recipe"], strict=False)
        self._policies = policies_of(recipe, self._network.generation_config)
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
        if work.prompts and not self._opened.is_still_the_same():
            raise BeamUQError(
                "the model server: is another than at the start of this job; run again, finished "
                "batches are kept"
            )
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
