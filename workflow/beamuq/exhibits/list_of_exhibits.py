"""Every table and figure of the paper and beyond it: its label, and the builder with the parameters that make it.

To add one, add it to this list; the builders are in the other modules of this package. One that print does not have is
marked as ``beyond_paper``.
"""

from __future__ import annotations

from dataclasses import replace

from beamuq.errors import BeamUQError, hint
from beamuq.evaluation.prr_and_auc import prr_to
from beamuq.exhibits import ablation_tables, candidate_count_curves, captions, exhibit_cells, gains_table, method_tables
from beamuq.exhibits.ablation_tables import AblationTable
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
from beamuq.exhibits.method_tables import MethodTable
from beamuq.exhibits.prr_by_answer_length import PrrByAnswerLength
from beamuq.exhibits.quality_agreement import QualityAgreement
from beamuq.exhibits.rejection_curves import RejectionCurvesFigure
from beamuq.exhibits.samples_and_beams_of_one_question import SamplesAndBeams
from beamuq.exhibits.why_beams_win import WhyBeamsWin
from beamuq.exhibits.worked_examples import WorkedExamples
from beamuq.parquet_tables import ANSWERED
from beamuq.study_config import Study

GEMMA = "gemma-3-4b-base"

STRATEGIES = AblationTable(
    "abl_sampling",
    scores=("every_strategy",),
    methods=captions.GRAPH,
    stub=("Candidates", "Setting"),
    what="PRR (higher is better) for different ways of generating candidates",
    rows=ablation_tables.strategy_rows,
    sentences=ablation_tables.strategy_sentences,
)

FLOORS = AblationTable(
    "abl_normalization",
    scores=("epsilon",),
    methods=captions.GRAPH,
    stub=("Floor",),
    what="PRR (higher is better) for floors ε on the mass of each beam",
    rows=ablation_tables.floor_rows,
    sentences=ablation_tables.floor_sentences,
)

EXHIBITS: tuple[Exhibit, ...] = (
    # What there is: datasets, methods, prompts
    DatasetSizes("test_datasets"),
    MethodCategories("lmpoly_methods"),
    PromptTemplates("prompts"),
    AccuracyTable("base_accs"),
    # Every method; a table a model, qa_<label>, comes by the study's models, qa_mean_prr_1 by its further rejections
    MethodTable("qa_mean_prr", columns="models"),
    MethodTable(
        "topbeam_scoring",
        columns="models",
        what="PRR (higher is better) of the top beam",
        answer_source="top_beam",
        sentences=("Quality and every method are those of the search's first beam instead of the greedy answer.",),
    ),
    MethodTable("abl_rocauc", model=GEMMA, metric="ROC-AUC"),
    MethodTable("abl_prauc", model=GEMMA, metric="PR-AUC"),
    MethodTable(
        "abl_other_methods",
        model=GEMMA,
        what="PRR (higher is better) of further methods in both forms",
        methods=("SemanticEntropy", "DegreeMatrix", "SAR", *captions.CONSISTENCY),
        sentences=tuple(method_tables.BOTH_FORMS.values()),
    ),
    MethodTable("abl_crossencoder", model=GEMMA, methods=captions.CONSISTENCY, cross_encoder=True),
    QualityAgreement("quality_agreement", beyond_paper=True),
    gains_table.by_candidates("gains_by_candidates"),
    gains_table.by_strategy("gains_by_strategy", STRATEGIES, FLOORS),
    # One setting varied
    STRATEGIES,
    FLOORS,
    AblationTable(
        "abl_ecc_params",
        scores=("alpha", "fixed_k"),
        methods=("Eccentricity", "EigVecDissimilarity"),
        stub=("Embedding",),
        what="PRR (higher is better) for different embeddings by the graph Laplacian",
        rows=ablation_tables.embedding_rows,
        sentences=ablation_tables.embedding_sentences,
    ),
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
    """The list, and a table each of what a study has several of; each of the answered questions alone too.

    Of each of its models the methods, what beams gain and the decisions, of the means of PRR to each further rejection,
    of the estimators on each dataset with an exact value, of the decisions and of AUGRC on each dataset.
    """
    by_model = [
        MethodTable(f"qa_{model.label}", model=name, only_this_model=True) for name, model in study.models.items()
    ]
    recipe = study.main.recipe
    run = exhibit_cells.models(study, recipe)
    gains = [gains_table.by_dataset(f"gains_{study.models[name].label}", name) for name in run]
    by_rejection = [
        MethodTable(
            f"qa_mean_prr_{prr_to(limit)[4:]}",
            columns="models",
            what=f"PRR (higher is better) to a rejection of {prr_to(limit)[4:]} instead of "
            f"{prr_to(study.evaluation.max_rejection[0])[4:]}",
            metric=prr_to(limit),
            beyond_paper=True,
        )
        for limit in study.evaluation.max_rejection[1:]
    ]
    exact = {d for entry in study.grid if study.recipes[entry.recipe].above for d in entry.datasets}
    by_dataset = [EstimatorsTable(f"estimators_{d}", d, beyond_paper=True) for d in study.datasets if d in exact]
    of_main = exhibit_cells.datasets(study, recipe)
    augrc = [AugrcTable(f"augrc_{d}", d, beyond_paper=True) for d in of_main]
    decided = [DecisionsTable(f"decisions_{d}", d, beyond_paper=True) for d in of_main]
    decided += [DecisionsTable(f"decisions_{study.models[name].label}", model=name, beyond_paper=True) for name in run]
    every = (*EXHIBITS, *by_model, *gains, *by_rejection, *by_dataset, *decided, *augrc)
    answered = [
        replace(item, label=f"{item.label}_answered", subset=ANSWERED, beyond_paper=True)
        for item in every
        if item.of_answers
    ]
    return {item.label: item for item in (*every, *answered)}
