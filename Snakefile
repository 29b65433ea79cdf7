# Regenerates the tables and figures of "Don't Throw Away Your Beams" from raw questions.
#
#   workflow/demo, data_root or the hub
#     -> results/<study>/questions -> prompts -> candidates -> similarity, quality -> scores -> evaluation
#     -> results/<study>/tables/<label>.{csv,tex,md,html}  and  figures/<study>/<label>.{pdf,svg,png,csv,txt}
#
# <label> is the paper's label without "tab:" or "fig:". Ask for one file and only what it needs is made.

from snakemake.utils import min_version

min_version("9.27")


include: "workflow/rules/common.smk"
include: "workflow/rules/fetch.smk"
include: "workflow/rules/questions.smk"
include: "workflow/rules/candidates.smk"
include: "workflow/rules/model_judgements.smk"
include: "workflow/rules/similarity.smk"
include: "workflow/rules/quality.smk"
include: "workflow/rules/scores.smk"
include: "workflow/rules/evaluation.smk"
include: "workflow/rules/beams_map.smk"
include: "workflow/rules/exhibits.smk"
include: "workflow/rules/job_costs.smk"
include: "workflow/rules/overview.smk"
include: "workflow/rules/explorer.smk"
include: "workflow/rules/comparison.smk"


localrules:
    all,
    tables,
    figures,
    evaluations,
    generations,
    fetched,
    study,
    ledger,


rule all:
    default_target: True
    input:
        plan.targets["tables"],
        plan.targets["figures"],
        plan.targets["evaluations"],
        plan.targets["decisions"],
        plan.targets["pages"],


rule tables:
    input:
        plan.targets["tables"],


rule figures:
    input:
        plan.targets["figures"],


rule evaluations:
    input:
        plan.targets["evaluations"],


rule generations:
    input:
        plan.targets["generations"],


rule fetched:
    input:
        files.fetched,
