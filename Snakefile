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


rule all:
    default_target: True
    input:
        plan.targets["tables"],
        plan.targets["figures"],
        plan.targets["evaluations"],
        plan.targets["decisions"],
        plan.targets["pages"],
    localrule: True


rule tables:
    input:
        plan.targets["tables"],
    localrule: True


rule figures:
    input:
        plan.targets["figures"],
    localrule: True


rule evaluations:
    input:
        plan.targets["evaluations"],
    localrule: True


rule generations:
    input:
        plan.targets["generations"],
    localrule: True


rule fetched:
    input:
        files.fetched,
    localrule: True
