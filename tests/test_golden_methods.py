"""Every method against the outputs of LM-Polygraph's own classes (the golden folder; its README
lists the maps).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beamuq.log_space_sums import Array, entropy_terms
from beamuq.methods import (
    METHODS,
    Answer,
    Evidence,
    Pairs,
    answer_probability,
    candidate_weights,
    compute,
    dissimilarity_cocoa,
    semantic_entropy_sar,
)
from beamuq.methods.rouge import words
from beamuq.text_normalization import clean, normalize_squad, normalize_triviaqa

GOLDEN = Path(
    os.environ.get("BEAMUQ_GOLDEN", Path(__file__).resolve().parents[2] / "shared" / "golden")
)
DEFAULT_CASES, FLOOR = 40, 2300
LEFT_OUT = (
    # LM-Polygraph's older score of the samples alone, not the paper's Eccentricity
    "EccentricityU",
    *(
        "LexicalSimilarity_rouge1",
        "LexicalSimilarity_rouge2",
        "LexicalSimilarity_BLEU",
    ),  # the paper uses ROUGE-L
)
NAMES = {
    "MaximumSequenceProbability": "Prob",
    "MeanTokenEntropy": "MTE",
    "SemanticEntropyEmpirical": "SemanticEntropy",
    "LexicalSimilarity_rougeL": "LexicalSimilarity",
    "DegMat": "DegreeMatrix",
    "EccentricityConf": "Eccentricity",
}
PLUS_ONE = (
    "CCP",
    "LexicalSimilarity",
)  # the release's −Π and −mean are the paper's 1 − Π and 1 − mean
LABELS = {"entail": "entail", "neutral": "neutral", "contra": "contradict"}

pytestmark = pytest.mark.golden


def golden(name: str) -> list[dict[str, Any]]:
    path = GOLDEN / name
    if not path.is_file():
        pytest.skip(f"no golden vectors at {path}; set BEAMUQ_GOLDEN to their folder")
    cases: list[dict[str, Any]] = json.loads(path.read_text())["cases"]
    return cases


def finite(output: Any) -> bool:
    return all(
        isinstance(x, int | float) for x in (output if isinstance(output, list) else [output])
    )


def padded(rows: list[list[float]]) -> tuple[Array, np.ndarray[Any, np.dtype[np.bool_]]]:
    lengths = np.array([len(row) for row in rows])
    mask = np.arange(max(lengths.max(), 1)) < lengths[:, None]
    values = np.zeros(mask.shape)
    values[mask] = [float(x) for row in rows for x in row]
    return values, mask


def ccp(alternatives: list[Any], labels: list[Any]) -> Array:
    shape = (1, len(alternatives), max(map(len, alternatives)))
    logprobs, codes = np.full(shape, -np.inf), np.zeros(shape, dtype=np.int8)
    for step, (tokens, pairs) in enumerate(zip(alternatives, labels, strict=True)):
        for place, ((_, logprob), pair) in enumerate(zip(tokens, pairs, strict=True)):
            logprobs[0, step, place] = logprob
            label = (
                "entail"
                if place == 0
                else answer_probability.combined_label(LABELS[pair[0]], LABELS[pair[1]])
            )
            codes[0, step, place] = answer_probability.LABELS.index(label)
    return answer_probability.claim_conditioned_probability(logprobs, codes, np.isfinite(logprobs))


def evidence(
    inputs: dict[str, Any], candidates: str, contra: bool, epsilon: float, alpha: float
) -> Evidence:
    """One case as evidence of one question; ``candidates`` is samples or beams."""
    entail = np.array(inputs[f"entail_greedy_{candidates}"])[None]
    contradiction = np.array(inputs[f"contra_greedy_{candidates}"])[None]
    same = (entail > contradiction) & (entail > 1.0 - entail - contradiction)
    mask = np.ones((1, entail.shape[1] - 1), dtype=bool)
    greedy = inputs["greedy_token_lls"]
    entropies, steps = padded(
        [
            [
                entropy_terms(np.exp(np.array(row, dtype=float))).sum()
                for row in inputs["greedy_token_logprob_rows"]
            ]
        ]
    )
    lls, tokens = padded(
        inputs[{"samples": "sample_token_lls", "beams": "beam_token_lls"}[candidates]]
    )
    logprob = lls.sum(axis=1)[None]
    if candidates == "samples":
        relevances = [[1.0 - s for s in row] for row in inputs["token_similarity_samples"]]
        token_sar = semantic_entropy_sar.token_sar(padded(relevances)[0], lls, tokens)[None]
        logprob = logprob + np.array(inputs["sample_eos_logprob"])
        cross, texts = (
            np.array(inputs["cross_encoder_samples"])[None],
            np.array([["", *inputs["sample_texts"]]], object),
        )
    return Evidence(
        answer=Answer(
            logprob=np.array([sum(greedy)]),
            length=np.array([len(greedy)]),
            mean_entropy=answer_probability.mean_token_entropy(entropies, steps),
            p_true_logprob=np.array([inputs["p_true_logprob"]]),
            ccp=ccp(inputs["ccp_alternatives"], inputs["ccp_nli"]),
        ),
        logprob=logprob,
        mask=mask,
        weights=candidate_weights.uniform(mask)
        if candidates == "samples"
        else candidate_weights.restricted_mass(logprob, mask, epsilon),
        pairs=Pairs(
            similarity=1.0 - contradiction if contra else entail,
            mask=np.ones(entail.shape[:2], dtype=bool),
            contradiction=contradiction,
            same=same & same.transpose(0, 2, 1),
        ),
        texts=texts if candidates == "samples" else None,
        token_sar=token_sar if candidates == "samples" else None,
        sentence_similarity=cross if candidates == "samples" else None,
        alpha=alpha,
    )


def ours(inputs: dict[str, Any], key: str) -> Array:
    """Our value for one output of the reference, before the README's maps."""
    head, *options = key.split("|")
    chosen = dict(option.split("=") for option in options if "=" in option)
    epsilon = 0.1 if "released_default" in options else float(chosen.get("eps", 0.0))
    name, _, matrix = (
        head.partition("_") if head.endswith(("_entail", "_contra")) else (head, "", "entail")
    )
    beams = name.endswith("Beamsearch") or name == "weights"
    name = name.removesuffix("Beamsearch")
    e = evidence(
        inputs,
        "beams" if beams else "samples",
        matrix == "contra",
        epsilon,
        float(chosen.get("alpha", 0.9)),
    )
    parts: dict[str, Callable[[], Array]] = {
        "weights": lambda: e.weights[0],
        "CocoaMTE": lambda: dissimilarity_cocoa.cocoa(
            e.answer.mean_entropy, compute(METHODS["Dissimilarity"], e)
        ),
        "SemanticEntropy": lambda: compute(METHODS["SemanticEntropy"], e, "likelihood-summed"),
        "SentenceSAR": lambda: semantic_entropy_sar.sar(
            -e.logprob, e.sentence_similarity, e.weights, e.mask
        ),
        "TokenSAR": lambda: semantic_entropy_sar.token_sar(
            1.0 - np.array([inputs["token_similarity_greedy"]]),
            np.array([inputs["greedy_token_lls"]]),
            np.ones((1, len(inputs["greedy_token_lls"])), dtype=bool),
        ),
    }
    return parts[name]() if name in parts else compute(METHODS[NAMES.get(name, name)], e)


def test_every_finite_output_of_the_reference_is_ours() -> None:
    cases = golden("lm_polygraph_estimators.json")
    compared, differing = 0, []
    for case in cases:
        # two texts without words: 1 where they are equal (D11); the reference says 0
        wordless = sum(not words(text) for text in case["inputs"]["sample_texts"]) > 1
        for key, output in case["outputs"].items():
            asked = not key.startswith(LEFT_OUT) and not (
                wordless and key.startswith("LexicalSimilarity")
            )
            if asked and finite(output):
                expected = np.atleast_1d(output) + float(key.startswith(PLUS_ONE))
                compared += 1
                actual = ours(case["inputs"], key)
                if not np.allclose(actual, expected, rtol=1e-8, atol=1e-10):
                    differing.append((case["id"], key, actual, expected))
    assert not differing, f"{len(differing)} of {compared} differ, first {differing[:3]}"
    assert compared >= FLOOR * min(len(cases) / DEFAULT_CASES, 1), (
        f"only {compared} outputs compared"
    )


def test_where_the_reference_fails_ours_is_finite() -> None:
    for case in golden("lm_polygraph_estimators.json"):
        for key, output in case["outputs"].items():
            if not finite(output) and not key.startswith(LEFT_OUT):
                assert np.isfinite(ours(case["inputs"], key)).all(), (case["id"], key)


@pytest.mark.parametrize(
    ("field", "function"),
    [
        ("candidate_normalize", clean),
        ("em_triviaqa", normalize_triviaqa),
        ("em_coqa", normalize_squad),
    ],
)
def test_texts_are_normalised_as_the_reference_does(
    field: str, function: Callable[[str], str]
) -> None:
    for case in golden("lm_polygraph_text.json"):
        assert function(case["text"]) == case[field], repr(case["text"])
