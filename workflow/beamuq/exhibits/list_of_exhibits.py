"""Every table and figure of the paper and beyond it: its label, and the builder with the parameters that make it.

To add one, add it to this list; the builders are in the other modules of this package. One that print does not have is
marked as ``beyond_paper``.
"""

from __future__ import annotations

from beamuq.errors import BeamUQError, hint
from beamuq.exhibits import candidate_count_curves, captions, exhibit_cells, tables_of_prr
from beamuq.exhibits.accuracy_table import AccuracyTable
from beamuq.exhibits.augrc_table import AugrcTable
from beamuq.exhibits.candidate_count_curves import CandidateCountCurves, CurvesAcrossCells
from beamuq.exhibits.candidate_figures import CoveredMassFigure, MassAboveThreshold, RedundantSamples
from beamuq.exhibits.controls import Controls
from beamuq.exhibits.dataset_method_prompt_tables import DatasetSizes, MethodCategories, PromptTemplates
from beamuq.exhibits.decision_figures import ReliabilityFigure, RiskCoverage
from beamuq.exhibits.decisions_table import DecisionsTable
from beamuq.exhibits.draw_spread import DrawSpread
from beamuq.exhibits.empty_answers_table import EmptyAnswersTable
from beamuq.exhibits.estimators_table import EstimatorsTable
from beamuq.exhibits.exhibit_types import Exhibit
from beamuq.exhibits.fair_share_figure import FairShareFigure
from beamuq.exhibits.gain_by_mass import GainByMass
from beamuq.exhibits.matched_rows_figure import MatchedRowsFigure
from beamuq.exhibits.merged_endings_table import MergedEndingsTable
from beamuq.exhibits.prr_by_answer_length import PrrByAnswerLength
from beamuq.exhibits.quality_agreement import QualityAgreement
from beamuq.exhibits.rejection_curves import RejectionCurvesFigure
from beamuq.exhibits.samples_and_beams_of_one_question import SamplesAndBeams
from beamuq.exhibits.why_beams_win import WhyBeamsWin
from beamuq.exhibits.worked_examples import WorkedExamples
from beamuq.study_config import Study

EXHIBITS: tuple[Exhibit, ...] = (
    # What there is: datasets, methods, prompts
    DatasetSizes("test_datasets"),
    MethodCategories("lmpoly_methods"),
    PromptTemplates("prompts"),
    AccuracyTable("base_accs"),
    QualityAgreement("quality_agreement", beyond_paper=True),
    # Figures of candidates
    SamplesAndBeams("sampling_vs_beamsearch"),
    RedundantSamples("redundancy"),
    MassAboveThreshold("beam_mass_threshold"),
    CoveredMassFigure("abl_prob_mass"),
    # Figures of PRR
    PrrByAnswerLength("abl_length"),
    RejectionCurvesFigure("prr_curves"),
    CandidateCountCurves(
        "abl_nsamples",
        series=candidate_count_curves.GRAPH_SERIES,
        what="PRR by number of candidates",
        shows=f"PRR (higher is better) against the number of candidates M for {captions.listing(captions.GRAPH)}: "
        "the first M samples, and a beam search of width M with probability weights.",
        draw=candidate_count_curves.draw_graph_methods,
        sentences=("At M = 1 the only beam is the greedy answer itself.",),
    ),
    CandidateCountCurves(
        "sement_different_nsamples",
        series=tuple(candidate_count_curves.ENTROPY_STYLES),
        what="Semantic Entropy and Dissimilarity by number of candidates",
        shows="PRR (higher is better) against the number of candidates M for Semantic Entropy of the first M samples "
        "(entropy of the clusters' counts) and for Dissimilarity of samples and of beams.",
        draw=candidate_count_curves.draw_entropy,
    ),
    CurvesAcrossCells("rebuttal_nsamples_across_data"),
    # Worked examples
    WorkedExamples("triviaqa-gemma4b", dataset="triviaqa", count=2),
    WorkedExamples("webq-gemma4b", dataset="webquestions", count=2),
    WorkedExamples("coqa-gemma4b-one", dataset="coqa", count=1),
    # Beyond the paper
    EmptyAnswersTable("empty_answers", beyond_paper=True),
    MergedEndingsTable("endings", beyond_paper=True),
    WhyBeamsWin("why_beams_win", beyond_paper=True),
    EstimatorsTable("estimators", beyond_paper=True),
    FairShareFigure("fair_share", beyond_paper=True),
    GainByMass("gain_by_mass", beyond_paper=True),
    Controls("controls", beyond_paper=True),
    DrawSpread("draw_spread", beyond_paper=True),
    MatchedRowsFigure("matched_rows", beyond_paper=True),
    RiskCoverage("risk_coverage", beyond_paper=True),
    DecisionsTable("decisions", beyond_paper=True),
    ReliabilityFigure("reliability", beyond_paper=True),
    AugrcTable("augrc", beyond_paper=True),
)


def labels(study: Study) -> list[str]:
    """Every label that exists for this study, whether or not its grid can supply it; tables first."""
    found = _by_label(study).values()
    return [item.label for item in sorted(found, key=lambda item: (item.kind != "table", item.label))]


def exhibit(label: str, study: Study) -> Exhibit:
    """The exhibit of this label. Raises BeamUQError if there is none; the message suggests the nearest."""
    found = _by_label(study)
    if label not in found:
        raise BeamUQError(f"{label!r}: no such exhibit; {hint(label, labels(study))}")
    return found[label]


def _by_label(study: Study) -> dict[str, Exhibit]:
    """The list, and a table each of what a study has several of: models, datasets, rejections."""
    exact = {d for entry in study.grid if study.recipes[entry.recipe].above for d in entry.datasets}
    by_dataset = [EstimatorsTable(f"estimators_{d}", d, beyond_paper=True) for d in study.datasets if d in exact]
    recipe = study.main.recipe
    run = exhibit_cells.models(study, recipe)
    of_main = exhibit_cells.datasets(study, recipe)
    augrc = [AugrcTable(f"augrc_{d}", d, beyond_paper=True) for d in of_main]
    decided = [DecisionsTable(f"decisions_{d}", d, beyond_paper=True) for d in of_main]
    decided += [DecisionsTable(f"decisions_{study.models[name].label}", model=name, beyond_paper=True) for name in run]
    every = (*EXHIBITS, *tables_of_prr.tables(study), *by_dataset, *decided, *augrc)
    return {item.label: item for item in every}
