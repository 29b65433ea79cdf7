rule scores:
    input:
        questions="results/{study}/questions/{dataset}.parquet",
        candidates="results/{study}/candidates/{model}/{dataset}/{recipe}.parquet",
        similarity="results/{study}/similarity/{scorer}/{model}/{dataset}/{recipe}.parquet",
        judgements=files.judgements,
        cross_similarity=files.cross_similarity,
        plugins=files.plugins("scores"),
    output:
        scores="results/{study}/scores/{scorer}/{model}/{dataset}/{recipe}.parquet",
    log:
        "logs/{study}/scores/{scorer}/{model}/{dataset}/{recipe}.log",
    benchmark:
        "results/{study}/benchmarks/scores/{scorer}/{model}/{dataset}/{recipe}.tsv"
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=plan.asked_mb(4000),
        runtime=20,
    params:
        settings=settings.scores,
        made_with=settings.made_with(
            "questions", "candidates", "similarity", "judgements", "cross_similarity"
        ),
        code=code_hash("scores"),
    script:
        "../scripts/scores.py"
