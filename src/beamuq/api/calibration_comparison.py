"""In what scores differ from those of a calibration: refused, or with force warned of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from beamuq import __version__
from beamuq.api.answer_identity import are_of_one_kind
from beamuq.api.calibration_file import CalibrationFile
from beamuq.api.endings_in_scores import EndingComparison, EndingCount
from beamuq.api.server_identity import WEIGHTS_UNKNOWN, ServerIdentity
from beamuq.errors import BeamUQError

KEYS_OF_ROWS = {
    "model": "'model'",
    "prompt": "'prompt_hash', any text that you change with the prompt",
}
"""Of what may be unknown, the keys by which rows say it."""

OPTION_OF_ENDINGS = "without_ending"
"""The setting that allows scores to lack their ending's log-probability."""

OTHER_KIND_OF_HASH = (
    "not known whether the calibration's model: one hash is of a model's files, the other of a "
    "model in memory; take the model by the same way for both"
)


@dataclass
class Comparison:
    """Of scores with a calibration's: ``differences`` in words, and names of what is ``unknown``.

    Unknown is what the scores, the calibration or both do not say. ``notes`` hold of what agrees.
    """

    differences: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def compare(self, name: str, value: Any, calibrated: Any) -> None:
        """Note a difference between two values that are known."""
        if value != calibrated:
            self.differences.append(f"{name} {value!r}, calibrated with {calibrated!r}")

    def warnings(self, *, force: bool, where: str) -> list[str]:
        """Warnings of what differs, with ``force``, and of what is not known.

        Raises BeamUQError of what differs, without ``force``.
        """
        if self.differences and not force:
            raise BeamUQError(
                f"{where}: {'; '.join(self.differences)}; decide as was calibrated, calibrate "
                "anew, or give --force (in Python force=True)"
            )
        warnings = list(self.differences)
        if self.unknown:
            warnings.append(
                f"not known whether the calibration's: {', '.join(self.unknown)}; the rows or the "
                f"file lack it: {self._remedy()}"
            )
        return warnings + self.notes

    def _remedy(self) -> str:
        """How what is unknown becomes known."""
        keys = [KEYS_OF_ROWS[name] for name in self.unknown if name in KEYS_OF_ROWS]
        remedies = []
        if keys:
            remedies.append(f"before scoring, give each row {' and '.join(keys)}")
        if len(keys) < len(self.unknown):
            remedies.append("give scores as score returns or writes them")
        return f"{', and '.join(remedies)}, those calibrated on too"


def check_same(
    calibration: CalibrationFile, facts: Mapping[str, Any], *, force: bool, where: str
) -> list[str]:
    """Warnings of what is not known to be the calibration's, with ``force`` of what differs too.

    ``facts``: as for :func:`compare_facts`.

    Raises BeamUQError of what differs, without ``force``.
    """
    comparison = Comparison()
    compare_facts(comparison, calibration, facts)
    return comparison.warnings(force=force, where=where)


def compare_facts(
    comparison: Comparison, calibration: CalibrationFile, facts: Mapping[str, Any]
) -> None:
    """Add to ``comparison`` what scores say of themselves, beside what the calibration says.

    ``facts``, where known: similarity, model, model_hash, prompt_hash, scored_with, version,
    candidates (fewest, most), endings (an EndingCount), server (a ServerIdentity).
    """
    endings = facts.get("endings")
    _compare_names_and_hashes(comparison, calibration, facts)
    _compare_servers(comparison, calibration, facts)
    _compare_endings(comparison, calibration, endings)
    are_counted = endings is not None and calibration.endings is not None
    _compare_settings(
        comparison,
        calibration.scored_with,
        facts.get("scored_with"),
        counted={OPTION_OF_ENDINGS} if are_counted else set(),
    )
    version = facts.get("version") or __version__
    comparison.compare("version", version, calibration.versions.get("beamuq"))
    _compare_candidates(comparison, calibration, facts.get("candidates"))


def _compare_names_and_hashes(
    comparison: Comparison, calibration: CalibrationFile, facts: Mapping[str, Any]
) -> None:
    for name in ("similarity", *_names_of_model(comparison, calibration, facts), "prompt_hash"):
        value = facts.get(name)
        calibrated = getattr(calibration, name)
        if calibrated and value:
            comparison.compare(name, value, calibrated)
        else:
            comparison.unknown.append(name.removesuffix("_hash"))


def _names_of_model(
    comparison: Comparison, calibration: CalibrationFile, facts: Mapping[str, Any]
) -> list[str]:
    """By what models are compared; none where their hashes are of two kinds, which is noted."""
    calibrated_hash = calibration.model_hash
    model_hash = facts.get("model_hash")
    if not calibrated_hash or not model_hash:
        return ["model"]  # one model may lie in two places: its name counts where a hash is missing
    if are_of_one_kind(calibrated_hash, model_hash):
        return ["model_hash"]
    comparison.notes.append(OTHER_KIND_OF_HASH)
    return []


def _compare_servers(
    comparison: Comparison, calibration: CalibrationFile, facts: Mapping[str, Any]
) -> None:
    server: ServerIdentity | None = facts.get("server")
    calibrated = calibration.server
    if server is not None and calibrated is not None:
        comparison.differences += server.differences(calibrated)
        comparison.notes.append(WEIGHTS_UNKNOWN)
        if server.version != calibrated.version:
            comparison.notes.append(
                f"server's version {server.version!r}, calibrated with {calibrated.version!r}; its "
                "probes are compared"
            )
    elif server is not None and calibration.model_hash:
        comparison.differences.append("decoded over a server, calibrated with a model in memory")
    elif calibrated is not None and facts.get("model_hash"):
        comparison.differences.append("decoded with a model in memory, calibrated over a server")
    elif server is not None or calibrated is not None:
        comparison.unknown.append("server")


def _compare_endings(
    comparison: Comparison, calibration: CalibrationFile, endings: EndingCount | None
) -> None:
    """Compare how many scores lack their ending's log-probability, which their notes say."""
    calibrated = calibration.endings
    if endings is None:
        return
    if calibrated is None:
        settings = json.loads(calibration.scored_with or "{}")
        if endings.lacking or settings.get(OPTION_OF_ENDINGS):
            comparison.notes.append(
                f"{endings} scores lack their ending's log-probability; of how many that is so "
                "that were calibrated on is not known: calibrate again"
            )
        return
    compared = EndingComparison(endings, calibrated)
    if compared.is_another_kind:
        comparison.differences.append(str(compared))
    elif compared.is_doubtful:
        comparison.notes.append(f"{compared}: the promise is of scores like the latter")


def _compare_settings(
    comparison: Comparison,
    calibrated_with: str | None,
    scored_with: str | None,
    counted: Set[str],
) -> None:
    """Compare all settings but the ``counted``, of which rows say what came of them."""
    if not calibrated_with or not scored_with:
        comparison.unknown.append("settings")
        return
    calibrated = json.loads(calibrated_with)
    settings = json.loads(scored_with)
    for name in calibrated | settings:
        if name in counted:
            continue
        value = settings.get(name)
        calibrated_value = calibrated.get(name)
        if (value is None) != (calibrated_value is None):
            comparison.unknown.append(f"setting {name}")
        else:
            comparison.compare(f"setting {name}", value, calibrated_value)


def _compare_candidates(
    comparison: Comparison, calibration: CalibrationFile, candidates: tuple[int, int] | None
) -> None:
    """Compare the most; of samples fewer than any calibrated with are noted, as where requests
    failed. Of beams a question may have fewer outcomes.
    """
    calibrated = calibration.candidates
    if not calibrated or not candidates:
        comparison.unknown.append("candidates")
        return
    most = max(candidates)
    calibrated_most = max(calibrated)
    if most != calibrated_most:
        comparison.differences.append(
            f"candidates up to {most}, calibrated with up to {calibrated_most}"
        )
    elif min(candidates) < min(calibrated) and calibration.form != "beamsearch":
        comparison.notes.append(
            f"some answers have only {min(candidates)} samples, none calibrated with fewer than "
            f"{min(calibrated)}: their scores are noisier than those that the guarantee is of"
        )
