"""Exact beams inside transformers' ``generate``.

``generate`` has prepared what its own search would have read: processors, stopping criteria, inputs
of the model. Whatever of it the engine does not read, and would change the result, is refused by
name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from beamuq.api.rows import check_settings
from beamuq.errors import BeamUQError

if TYPE_CHECKING:
    from beamuq.decoding import Candidate, Prompt

CACHES = ("cache", "past_key_values", "cache_params")  # transformers 5.24 renamed the argument
PERMITTED_INPUTS = ("attention_mask", "position_ids", "use_cache", "logits_to_keep", *CACHES)
"""What ``generate`` itself adds to a model's inputs; mask, positions and cache are looked into."""
ENCODER_OUTPUTS = "mm_encoder_outputs"
ENCODER_OUTPUTS_IN_MESSAGES = f"{ENCODER_OUTPUTS} (of pixel_values and the like)"
OF_DRAWS = (
    "TemperatureLogitsWarper",
    "TopKLogitsWarper",
    "TopPLogitsWarper",
    "TopHLogitsWarper",
    "MinPLogitsWarper",
    "TypicalLogitsWarper",
    "EpsilonLogitsWarper",
    "EtaLogitsWarper",
)
"""Transformers' processors of draws alone, of which a search under the model's own has no use."""
SWITCHED_OFF_BY = {
    "EncoderRepetitionPenaltyLogitsProcessor": "encoder_repetition_penalty=1.0",
    "MinLengthLogitsProcessor": "min_length=0, min_new_tokens=0",
    "NoRepeatNGramLogitsProcessor": "no_repeat_ngram_size=0",
    "RepetitionPenaltyLogitsProcessor": "repetition_penalty=1.0",
    "UnbatchedClassifierFreeGuidanceLogitsProcessor": "guidance_scale=1.0",
}
"""What to call ``generate`` with where a model's generation config sets a processor."""
UNREAD: dict[str, tuple[Any, ...]] = {
    "length_penalty": (1.0, 0.0, None),  # 1 is what generate fills in
    "early_stopping": (False, "never", None),
    "diversity_penalty": (0.0, None),
    "num_beam_groups": (1, None),
    "num_beams": (1, None),
    "num_return_sequences": (1, None),
    "output_logits": (False, None),
    "output_attentions": (False, None),
    "output_hidden_states": (False, None),
    "token_healing": (False, None),
    **dict.fromkeys(("constraints", "force_words_ids", "dola_layers", "penalty_alpha"), (None,)),
    "prompt_lookup_num_tokens": (None,),
}
"""Settings that this search does not read, and values that change nothing; the first is the fix."""


def beams(
    model: Any,
    input_ids: Any,
    logits_processor: Sequence[Any] = (),
    stopping_criteria: Sequence[Any] = (),
    generation_config: Any = None,
    width: int = 10,
    **model_inputs: Any,
) -> Any:
    """Beam search with the exact log-probability of every beam, inside ``generate``.

    Called by ``model.generate(…, custom_generate=beamuq.beams)``. Ranked by log p, without a length
    penalty, and stopped only when no running beam can enter the best ``width``. It is a search
    under the model's own distribution: settings of sampling (temperature, top-k, top-p) do not
    touch it.

    Parameters
    ----------
    width
        M of the beam search, for each prompt of the batch. Prompts are padded on the left, as the
        mask says.

    Returns
    -------
    ``ExactBeams``, a ``GenerateBeamDecoderOnlyOutput``: ``sequences``
    [prompts × width, length], prompt first, the most probable beam of each prompt first;
    ``sequences_scores`` [prompts × width], natural log p of the whole answer, its ending included.
    ``from_generate`` makes candidates of it.

    Raises BeamUQError if the generation config has what changes the distribution (a penalty, forced
    or banned tokens), ranks or stops otherwise (a length penalty, time, strings), or num_beams; if
    the model is given anything beside token ids and their mask (images, embeddings, positions of
    one's own); if it is an encoder and a decoder; or if a prompt has fewer than ``width`` answers.

    Examples
    --------
    >>> output = model.generate(**inputs, custom_generate=beamuq.beams, width=10, max_new_tokens=8)
    >>> bool(output.sequences_scores.exp().sum() <= 1)  # the probability of each beam
    True
    """
    import torch

    from beamuq import decoding

    check_settings(width=width)
    if model.config.is_encoder_decoder:
        raise BeamUQError(
            f"{type(model).__name__}: an encoder and a decoder; beamuq.beams decodes models of a "
            "decoder alone: give it such a model"
        )
    mask = model_inputs.get("attention_mask")
    mask = torch.ones_like(input_ids) if mask is None else mask
    _check_inputs(input_ids, mask, model_inputs)
    _check_settings_read(generation_config)
    _check_processors(logits_processor, drawn=bool(generation_config.do_sample))
    ends = generation_config.eos_token_id
    stops = frozenset(torch.as_tensor([] if ends is None else ends).flatten().tolist())
    _check_criteria(stopping_criteria, stops, generation_config.max_length)
    prompts = _prompts(input_ids, mask)
    length = generation_config.max_length - input_ids.shape[1]
    rows = decoding.decode(
        model,
        prompts,
        [decoding.Beam(width)],
        stop_ids=stops,
        seed=0,
        max_new_tokens=length,
    )
    if len(rows) < width * len(prompts):
        raise BeamUQError(
            f"width: {width}: a prompt has fewer answers of at most {length} tokens; ask for fewer",
        )
    padding = generation_config.pad_token_id
    if padding is None:
        padding = min(stops, default=0)
    return _output(input_ids, rows, width, padding)


def _prompts(input_ids: Any, mask: Any) -> list[Prompt]:
    """The prompts without padding."""
    from beamuq import decoding

    return [
        decoding.Prompt(str(number), tuple(ids[own_mask.bool()].tolist()))
        for number, (ids, own_mask) in enumerate(zip(input_ids, mask, strict=True))
    ]


def _check_inputs(input_ids: Any, mask: Any, model_inputs: Mapping[str, Any]) -> None:
    """Raise BeamUQError for inputs of the model that the search would drop or change.

    The search gives a model its token ids, and reads the mask to tell tokens from padding. It makes
    positions and cache anew. So positions must be those that follow from the mask, a cache must be
    empty, and the mask must be 0 or 1 for each token. Any further input, such as an image, is
    refused.
    """
    dropped = [
        name
        for name, value in model_inputs.items()
        if name not in PERMITTED_INPUTS and _has_content(name, value)
    ]
    if dropped:
        names = ", ".join(
            ENCODER_OUTPUTS_IN_MESSAGES if name == ENCODER_OUTPUTS else name for name in dropped
        )
        raise BeamUQError(
            f"{names}: beamuq.beams gives a model its token ids and their mask alone; leave that "
            "out, or take generate's own beams with output_logits=True and beamuq.from_generate"
        )
    for name in CACHES:
        if model_inputs.get(name) is not None:
            _check_cache(name, model_inputs[name])
    if model_inputs.get("position_ids") is not None:
        _check_positions(model_inputs["position_ids"], mask)
    if mask.shape != input_ids.shape or not bool(((mask == 0) | (mask == 1)).all()):
        raise BeamUQError(
            f"attention_mask: shape {tuple(mask.shape)}: must be 0 or 1 for each token of "
            f"{tuple(input_ids.shape)}; give the tokenizer's"
        )


def _has_content(name: str, value: Any) -> bool:
    """Whether an input says something: ``generate`` and tokenizers add empty ones."""
    if value is None or (isinstance(value, Mapping) and not value):
        return False
    # tokenizers of some text models give zeros: all is of one kind
    return name != "token_type_ids" or bool((value != 0).any())


def _check_positions(positions: Any, mask: Any) -> None:
    """Refuse positions that do not follow from the mask; some models have several a token."""
    is_token = mask.bool()
    expected = mask.long().cumsum(-1) - 1
    try:
        differs = (positions != expected) & is_token
    except RuntimeError:  # of another length
        differs = is_token
    if bool(differs.any()):
        raise BeamUQError(
            f"position_ids: {tuple(positions.shape)}: other positions than those that follow from "
            "attention_mask; leave position_ids out"
        )


def _check_cache(name: str, cache: Any) -> None:
    """Refuse a cache that holds tokens, or would round what it holds: the engine keeps its own."""
    from transformers.cache_utils import Cache, QuantizedCache

    problem = ""
    if not isinstance(cache, Cache):
        problem = "no cache of transformers"
    elif isinstance(cache, QuantizedCache):
        problem = "rounds keys and values"
    elif any(_holds_tokens(layer) for layer in getattr(cache, "layers", ())):
        problem = "holds tokens already"
    if problem:
        raise BeamUQError(
            f"{name}: {type(cache).__name__}: {problem}; leave it out and give whole prompts",
        )


def _holds_tokens(layer: Any) -> bool:
    """Of attention, or of a recurrent state, which keeps no length."""
    states = getattr(layer, "has_previous_state", False)
    if any(states.values() if isinstance(states, Mapping) else [states]):
        return True
    return bool(hasattr(layer, "get_seq_length") and layer.get_seq_length() > 0)


def _check_settings_read(config: Any) -> None:
    """Refuse settings that this search does not read, unless their values change nothing."""
    for name, values in UNREAD.items():
        value = getattr(config, name, None)
        if value not in values:
            number = "; width is the number of beams" if name.startswith("num_") else ""
            raise BeamUQError(
                f"{name}: {value!r:.80}: not a setting of this search{number}; leave it out, or "
                f"call generate with {name}={values[0]!r}"
            )
    if getattr(config, "cache_implementation", None) == "quantized":
        raise BeamUQError(
            "cache_implementation: 'quantized': rounds keys and values, which this search does not "
            "do; leave it out, or give another"
        )


def _check_processors(processors: Sequence[Any], *, drawn: bool) -> None:
    """Refuse whatever changes the distribution.

    Only transformers' own classes are known, none of the same name. ``drawn``: the config samples,
    so that ``generate`` made the processors of draws. Otherwise they are the caller's, and would
    change a beam search.
    """
    from transformers.generation import logits_process

    harmless: set[Any] = {logits_process.LogitNormalization}
    if drawn:
        # an older transformers may lack one
        harmless |= {getattr(logits_process, name, None) for name in OF_DRAWS}
    for processor in processors:
        if type(processor) not in harmless:
            setting = SWITCHED_OFF_BY.get(type(processor).__name__)
            further = f", or call generate with {setting}" if setting else ""
            raise BeamUQError(
                f"{_class(processor)}: changes the model's distribution; leave that setting, or a "
                f"processor of your own, out{further}"
            )


def _check_criteria(criteria: Sequence[Any], stops: frozenset[int], max_length: int) -> None:
    """Refuse whatever ends an answer but the config's ends and length, which the search reads."""
    from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria

    for criterion in criteria:
        is_read = False
        if type(criterion) is EosTokenCriteria:
            is_read = set(criterion.eos_token_id.flatten().tolist()) == stops
        elif type(criterion) is MaxLengthCriteria:
            is_read = criterion.max_length == max_length
        if not is_read:
            raise BeamUQError(
                f"{_class(criterion)}: changes where an answer ends; leave that setting or "
                "criterion out, and give eos_token_id and max_new_tokens"
            )


def _class(part: Any) -> str:
    """Its name; with its module, where it is not transformers' own."""
    kind = type(part)
    own = kind.__module__.startswith("transformers.generation.")
    return kind.__name__ if own else f"{kind.__module__}.{kind.__name__}"


def _output(input_ids: Any, rows: Sequence[Candidate], width: int, padding: int) -> Any:
    """The beams as ``generate`` returns them, padded to the longest."""
    import torch

    from beamuq.api.exact_beams import ExactBeams

    lengths = [len(candidate.token_ids) for candidate in rows]
    longest = max(lengths)
    answers = torch.full((len(rows), longest), padding, dtype=input_ids.dtype)
    logprobs = torch.zeros((len(rows), longest), dtype=torch.float64)
    for place, (candidate, length) in enumerate(zip(rows, lengths, strict=True)):
        answers[place, :length] = torch.tensor(candidate.token_ids)
        logprobs[place, :length] = torch.as_tensor(candidate.token_logprobs, dtype=torch.float64)
    totals = [candidate.logprob for candidate in rows]
    repeated = input_ids.repeat_interleave(width, dim=0)
    return ExactBeams(
        sequences=cast(Any, torch.cat([repeated, answers.to(input_ids.device)], dim=1)),
        sequences_scores=cast(Any, torch.tensor(totals, dtype=torch.float64)),
        token_logprobs=logprobs,
        answer_tokens=torch.tensor(lengths),
    )
