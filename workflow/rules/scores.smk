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
    priority: plan.priority
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=plan.asked_mb(4000),
        runtime=20,
    params:
        settings=settings.scores,
        made_with=settings.expected(
            "questions", "candidates", "similarity", "judgements", "cross_similarity"
        ),
        code=code_hash("scores"),
        program=not_compared(f"{SCRIPTS}/scores.py"),
    shell:
        "python {params.program:q} --questions {input.questions:q} --candidates {input.candidates:q}"
        " --similarity {input.similarity:q} --judgements {input.judgements:q}"
        " --cross-similarity {input.cross_similarity:q} --settings {params.settings:q}"
        " --made-with {params.made_with:q} --scores {output.scores:q} > {log} 2>&1"
