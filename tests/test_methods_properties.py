"""What holds for every method: order, duplicates, degenerate input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

import synthetic
from beamuq.log_space_sums import Array
from beamuq.methods import METHODS, Answer, Evidence, Pairs, candidate_weights, compute

ORDERED = ("SemanticEntropy",)  # clustering compares with first members
MERGEABLE = ("Dissimilarity", "CocoaMSP", "CocoaPPL", "SemanticEntropy", "DegreeMatrix")


def taken(e: Evidence, order: list[int], w: Array | None = None) -> Evidence:
    """The candidates at some positions, with new weights where given."""
    nodes = [0, *(1 + i for i in order)]
    pairs = {
        name: getattr(e.pairs, name)
        for name in ("similarity", "contradiction", "same", "identical")
    }
    return replace(
        e,
        logprob=e.logprob[:, order],
        mask=e.mask[:, order],
        weights=e.weights[:, order] if w is None else w,
        texts=e.texts[:, nodes],
        token_sar=e.token_sar[:, order],
        sentence_similarity=e.sentence_similarity[:, order][:, :, order],
        pairs=Pairs(
            mask=e.pairs.mask[:, nodes],
            **{name: values[:, nodes][:, :, nodes] for name, values in pairs.items()},
        ),
    )


def of_question(e: Evidence, n: int) -> Evidence:
    """The evidence of one question alone."""

    def part(of: Any) -> Any:
        arrays = {field.name: getattr(of, field.name) for field in fields(of)}
        return replace(
            of,
            **{
                name: array[n : n + 1]
                for name, array in arrays.items()
                if isinstance(array, np.ndarray)
            },
        )

    return replace(part(e), answer=part(e.answer), pairs=part(e.pairs))


@pytest.mark.parametrize("strategy", ["sample T=1.0", "beam M=10"])
@pytest.mark.parametrize("name", [name for name in METHODS if name not in ORDERED])
def test_permuting_the_candidates_changes_nothing(name: str, strategy: str) -> None:
    e = synthetic.evidence(strategy, 30)
    order = np.random.default_rng(0).permutation(10).tolist()
    np.testing.assert_allclose(
        compute(METHODS[name], taken(e, order)), compute(METHODS[name], e), atol=1e-9
    )


@pytest.mark.parametrize("name", MERGEABLE)
def test_merging_beams_of_one_text_changes_nothing(name: str) -> None:
    together = synthetic.evidence("beam M=10", 30)
    expected = compute(METHODS[name], together)
    for n in range(len(expected)):
        one = of_question(together, n)
        texts = one.texts[0, 1:].tolist()
        first = [i for i, text in enumerate(texts) if texts.index(text) == i]
        summed = np.array(
            [
                [
                    sum(w for w, t in zip(one.weights[0], texts, strict=True) if t == texts[i])
                    for i in first
                ]
            ]
        )
        np.testing.assert_allclose(
            compute(METHODS[name], taken(one, first, summed)), expected[n], atol=1e-9
        )


def degenerate() -> Iterator[tuple[str, Evidence]]:
    """Inputs at the edge: no similarity, all similarity, hopeless probabilities, single candidates,
    empty texts.
    """
    for level in (0.0, 1.0, 0.5, 1e-300):
        for logprob in (0.0, -1.0, -2000.0):
            for M in (1, 2, 10):
                mask = np.ones((3, M), dtype=bool)
                mask[1, 1:] = False  # one question with a single candidate
                nodes = np.concatenate([np.ones((3, 1), dtype=bool), mask], axis=1)
                S = np.where(nodes[:, :, None] & nodes[:, None, :], level, 0.0)
                logprobs = np.where(mask, logprob, -np.inf)
                yield (
                    f"similarity {level}, log p {logprob}, M {M}",
                    Evidence(
                        answer=Answer(
                            logprob=np.full(3, logprob),
                            length=np.ones(3, dtype=np.int64),
                            mean_entropy=np.zeros(3),
                            p_true_logprob=np.full(3, logprob),
                            ccp=np.zeros(3),
                        ),
                        logprob=logprobs,
                        mask=mask,
                        weights=candidate_weights.restricted_mass(logprobs, mask),
                        texts=np.full((3, M + 1), "", dtype=object),
                        token_sar=np.where(mask, -logprob, 0.0),
                        sentence_similarity=S[:, 1:, 1:],
                        pairs=Pairs(
                            S,
                            nodes,
                            contradiction=1 - S,
                            same=S > 0.5,
                            identical=np.zeros(S.shape, dtype=bool),
                        ),
                    ),
                )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", METHODS)
def test_degenerate_input_neither_raises_nor_warns_nor_gives_nan(name: str) -> None:
    for label, e in degenerate():
        for setting in ("", *METHODS[name].formulations):
            assert np.isfinite(compute(METHODS[name], e, setting)).all(), label
        if name in ("Eccentricity", "EigVecDissimilarity"):
            assert np.isfinite(compute(METHODS[name], replace(e, K=3))).all(), label


@pytest.mark.parametrize(
    "name", ["Dissimilarity", "Eccentricity", "EigVecDissimilarity", "CocoaMSP", "DegreeMatrix"]
)
def test_nothing_similar_is_more_uncertain_than_everything_similar(name: str) -> None:
    cases = dict(degenerate())
    alone, agreed = (
        cases["similarity 0.0, log p -1.0, M 10"],
        cases["similarity 1.0, log p -1.0, M 10"],
    )
    assert (compute(METHODS[name], alone) > compute(METHODS[name], agreed) + 0.5).all()


def test_adding_padding_changes_nothing() -> None:
    e = synthetic.evidence("beam M=10", 30)
    wider = {
        name: np.pad(getattr(e, name), ((0, 0), (0, 2)), constant_values=fill)
        for name, fill in (
            ("logprob", -np.inf),
            ("mask", False),
            ("weights", 0.0),
            ("texts", ""),
            ("token_sar", 0.0),
        )
    }
    square = ((0, 0), (0, 2), (0, 2))
    pairs = Pairs(
        similarity=np.pad(e.pairs.similarity, square),
        mask=np.pad(e.pairs.mask, ((0, 0), (0, 2))),
        contradiction=np.pad(e.pairs.contradiction, square),
        same=np.pad(e.pairs.same, square),
        identical=np.pad(e.pairs.identical, square, constant_values=True),
    )
    padded = replace(
        e, **wider, pairs=pairs, sentence_similarity=np.pad(e.sentence_similarity, square)
    )
    for name, method in METHODS.items():
        for setting, K in (*((of, None) for of in ("", *method.formulations)), ("", 2), ("", 10)):
            found, expected = (compute(method, replace(of, K=K), setting) for of in (padded, e))
            np.testing.assert_allclose(found, expected, atol=1e-9, err_msg=name)
