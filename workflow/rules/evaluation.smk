rule evaluation:
    input:
        questions="results/{study}/questions/{dataset}.parquet",
        candidates="results/{study}/candidates/{model}/{dataset}/{recipe}.parquet",
        scores="results/{study}/scores/{scorer}/{model}/{dataset}/{recipe}.parquet",
        quality=files.quality,
        further_qualities=files.further_qualities,
    output:
        evaluation="results/{study}/evaluation/{scorer}/{model}/{dataset}/{recipe}.parquet",
        replicates="results/{study}/replicates/{scorer}/{model}/{dataset}/{recipe}.parquet",
    log:
        "logs/{study}/evaluation/{scorer}/{model}/{dataset}/{recipe}.log",
    benchmark:
        "results/{study}/benchmarks/evaluation/{scorer}/{model}/{dataset}/{recipe}.tsv"
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=plan.asked_mb(4000),
        runtime=20,
    params:
        settings=settings.evaluation,
        beam=settings.main_beam,
        made_with=settings.made_with(
            "questions", "candidates", "scores", "quality", "further_qualities"
        ),
        code=code_hash("evaluation"),
    script:
        "../scripts/evaluation.py"


rule decisions:
    input:
        questions="results/{study}/questions/{dataset}.parquet",
        shots="results/{study}/shots/{dataset}.parquet",
        prompts=files.prompts,
        candidates="results/{study}/candidates/{model}/{dataset}/{recipe}.parquet",
        scores="results/{study}/scores/{scorer}/{model}/{dataset}/{recipe}.parquet",
        quality=files.quality,
    output:
        decisions="results/{study}/decisions/{scorer}/{model}/{dataset}/{recipe}.parquet",
        scored="results/{study}/decisions/{scorer}/{model}/{dataset}/{recipe}.scored.jsonl",
    log:
        "logs/{study}/decisions/{scorer}/{model}/{dataset}/{recipe}.log",
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=plan.asked_mb(4000),
        runtime=20,
    params:
        settings=settings.decisions,
        made_with=settings.made_with(
            "questions", "shots", "candidates", "scores", "quality"
        ),
        code=code_hash("decisions"),
    script:
        "../scripts/decisions.py"
