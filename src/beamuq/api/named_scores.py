"""Which score of a frame a name means: a method, a method in a form, or a name of ``wide()``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from beamuq.api.draws_of_samples import settings_of_draws
from beamuq.api.rows import score_names
from beamuq.api.score_candidates import FORM_OF_WORD, Scores
from beamuq.api.score_series import candidate_counts, form_in_words, kind_of
from beamuq.errors import BeamUQError, hint

FORM_NAMES = (*FORM_OF_WORD, *FORM_OF_WORD.values())
Name = str | tuple[str, ...]
"""``CocoaPPL``; ``("Dissimilarity", "samples")``, a third entry being the setting; or
``Dissimilarity + multinomial``."""


class ScoreKeys(NamedTuple):
    """A score of a frame: a method in a form and a formulation."""

    method: str
    form: str
    setting: str

    def in_words(self) -> str:
        """``CocoaPPL over beams``."""
        form = form_in_words(self.method, self.form, plain=True)
        return " ".join(filter(None, [self.method, self.setting, form]))

    @property
    def is_over_samples(self) -> bool:
        """Whether it compares the answer with samples."""
        return kind_of(self.method, self.form) == "samples"


class ScoreColumn(NamedTuple):
    """A score by id, and from how many candidates, the fewest and the most; 0: not known."""

    keys: ScoreKeys
    values: pd.Series[float]
    counts: tuple[int, int]


def keys_of(parameter: str, scores: Scores, name: Name, setting: str = "") -> ScoreKeys:
    """What a name means; of a method alone over beams where there are any, else over samples.

    ``setting``: of a name that says none.

    Raises BeamUQError naming the ``parameter``: no name of one score, or the frame has no such.
    """
    if isinstance(name, str) and " " in name:
        names = score_names(scores)
        rows = scores[names == name]
        if rows.empty:
            raise BeamUQError(f"{parameter}: {name!r}: no such score; {hint(name, names.unique())}")
        return ScoreKeys(*rows[["method", "variant", "setting"]].iloc[0])
    parts = (name,) if isinstance(name, str) else name
    if not _are_one_score(parts):
        raise BeamUQError(
            f"{parameter}: {_shown(name)}; give one score: a method, such as 'CocoaPPL', or with "
            "its form, ('Dissimilarity', 'samples')"
        )
    form = parts[1] if len(parts) > 1 else None
    own_setting = parts[2] if len(parts) > 2 else setting
    if form and form not in FORM_NAMES:
        raise BeamUQError(f"{parameter}: form {form!r:.40}: unknown; {hint(form, FORM_NAMES)}")
    rows = pd.DataFrame(scores.scores_of(parts[0], form, own_setting).scored_rows)
    return ScoreKeys(*rows[["method", "variant", "setting"]].iloc[0])


def _shown(name: object) -> str:
    """What was given, as an error says it."""
    return f"{name!r:.60}" if isinstance(name, list | tuple) else f"a {type(name).__name__}"


def _are_one_score(parts: object) -> bool:
    """Whether it is a method, or a method with its form, or with its setting too."""
    if not isinstance(parts, tuple) or not 1 <= len(parts) <= 3:
        return False
    return all(isinstance(part, str) for part in parts)


def column_of(scores: Scores, ids: pd.Index, keys: ScoreKeys) -> ScoreColumn:
    """The score of each id; raises BeamUQError if one has none, or twice."""
    series = scores.scores_of(keys.method, keys.form, keys.setting)
    if not series.index.is_unique:
        label = series.index[series.index.duplicated()][0]
        raise BeamUQError(
            f"scores: id {label!r}: {keys.in_words()} stands twice; give each question its own id, "
            "and the scores by one similarity"
        )
    for label in ids:
        if label not in series.index:
            raise BeamUQError(_no_score(scores, label, keys))
    values = pd.Series(series.loc[ids].to_numpy(np.float64), index=ids)
    return ScoreColumn(keys, values, candidate_counts(rows_of(scores, keys)))


def columns_of(scores: Scores, ids: pd.Index, keys: ScoreKeys) -> list[ScoreColumn]:
    """The score as :func:`column_of`; over samples in several draws that of each draw."""
    of_form = scores[(scores["method"] == keys.method) & (scores["variant"] == keys.form)]
    draws = settings_of_draws(of_form["setting"].unique())
    settings = [keys.setting]
    if draws and keys.is_over_samples and not keys.setting:
        settings = draws
    return [column_of(scores, ids, keys._replace(setting=setting)) for setting in settings]


def rows_of(scores: pd.DataFrame, keys: ScoreKeys) -> pd.DataFrame:
    """The rows of a score, with a value or without."""
    of_method = scores[(scores["method"] == keys.method) & (scores["variant"] == keys.form)]
    return pd.DataFrame(of_method[of_method["setting"] == keys.setting])


def _no_score(scores: pd.DataFrame, label: object, keys: ScoreKeys) -> str:
    rows = rows_of(scores, keys)
    reasons = list(rows.loc[rows["id"] == label].get("reason", pd.Series(dtype=str)))
    reason = f" ({reasons[0]})" if reasons and reasons[0] else ""
    return (
        f"scores: id {label!r}: no {keys.in_words()}{reason}; leave the question out: "
        f"scores[scores['id'] != {label!r}], quality.drop({label!r})"
    )
