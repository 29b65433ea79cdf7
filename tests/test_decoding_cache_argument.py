"""A cache goes in and out under any name: what versions of transformers call it, and what they may
call it next.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from transformers import Cache, DynamicCache
from transformers.utils import ModelOutput

from beamuq.decoding import Beam, Greedy, Prompt, Sample, decode
from beamuq.decoding.cached_passes import cache_argument
from beamuq.decoding.self_check import SelfCheck, checked, remember
from beamuq.errors import BeamUQError
from model_classes import random_model

PROMPTS = [Prompt("one", (20, 30, 40)), Prompt("two", (20, 30, 50, 60))]


def decoded(model: Any) -> list[tuple[tuple[int, ...], float]]:
    remember(model, SelfCheck("cached", 0.0, "none"))
    options: dict[str, Any] = {"stop_ids": frozenset(range(1, 9)), "seed": 0, "max_new_tokens": 4}
    found = decode(model, PROMPTS, [Greedy(), Beam(3), Sample(3)], **options)
    return [
        (candidate.token_ids, pytest.approx(candidate.logprob, abs=1e-5)) for candidate in found
    ]


def by_either_name(plain: Callable[..., Any], options: dict[str, Any], cache: Any) -> Any:
    """The plain forward pass, and its cache, whatever this version of transformers calls it."""
    name = cache_argument(inspect.signature(plain).parameters)
    output = plain(**options, **{name: cache})
    return output.last_hidden_state, output[name]


def renamed(
    model: Any, taken: str, given: str, *, annotation: Any = inspect.Parameter.empty
) -> Any:
    """A copy of ``model`` whose decoder takes its cache as ``taken`` and returns it as ``given``;
    "": not at all.
    """
    model = copy.deepcopy(model)
    decoder = model.get_decoder()
    plain = decoder.forward

    def forward(**options: Any) -> Any:
        cache = options.pop(taken, None) if taken else None
        states, cache = by_either_name(plain, options, cache)
        return ModelOutput({"last_hidden_state": states} | ({given: cache} if given else {}))

    names = ("input_ids", "position_ids", "use_cache")
    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
    if taken:
        parameters.append(
            inspect.Parameter(taken, inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
        )
    vars(forward)["__signature__"] = inspect.Signature(parameters)
    decoder.forward = forward
    return model


@pytest.fixture(scope="module")
def llama() -> Any:
    return random_model("llama")


@pytest.mark.parametrize("taken", ["cache", "past_key_values", "cache_params"])
@pytest.mark.parametrize(
    "given", ["cache", "past_key_values", "cache_params", "something_else", ""]
)
def test_all_pairs_of_names_give_the_same_answers(taken: str, given: str, llama: Any) -> None:
    assert decoded(llama) == decoded(renamed(llama, taken, given))


@pytest.mark.parametrize(
    "annotation",
    [Cache, Cache | None, None | DynamicCache, "Cache | None", "Optional[DynamicCache]"],
)
def test_a_name_of_a_later_version_is_known_by_its_annotation(annotation: Any, llama: Any) -> None:
    assert decoded(llama) == decoded(renamed(llama, "memory", "memory", annotation=annotation))


def test_a_decoder_that_takes_no_cache_is_refused_for_that(llama: Any) -> None:
    with pytest.raises(BeamUQError, match="keeps no cache"):
        decoded(renamed(llama, "", ""))


@pytest.mark.parametrize(
    "annotation", [int | None, "bool", inspect.Parameter.empty, "CachedThing | None"]
)
def test_other_arguments_are_no_caches(annotation: Any) -> None:
    other = inspect.Parameter("use_cache", inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
    assert cache_argument({"use_cache": other}) == ""


@pytest.mark.parametrize("kind", ["bloom", "mamba", "jamba", "gpt_neo"])
def test_classes_with_caches_of_their_own_are_decoded_whatever_the_version_calls_them(
    kind: str,
) -> None:
    assert checked(random_model(kind)).difference <= 1e-5
