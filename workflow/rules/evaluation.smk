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
    priority: plan.priority
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=plan.asked_mb(4000),
        runtime=20,
    params:
        settings=settings.evaluation,
        beam=settings.main_beam,
        made_with=settings.expected(
            "questions",
            "candidates",
            "similarity",
            "judgements",
            "cross_similarity",
            "scores",
            "quality",
            "further_qualities",
        ),
        code=code_hash("evaluation"),
        program=not_compared(f"{SCRIPTS}/evaluation.py"),
    shell:
        "python {params.program:q} --questions {input.questions:q} --candidates {input.candidates:q}"
        " --scores {input.scores:q} --quality {input.quality:q} --further-qualities {input.further_qualities:q}"
        " --settings {params.settings:q} --beam {params.beam:q} --made-with {params.made_with:q}"
        " --evaluation {output.evaluation:q} --replicates {output.replicates:q} > {log} 2>&1"


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
    priority: plan.priority
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=plan.asked_mb(4000),
        runtime=20,
    params:
        settings=settings.decisions,
        made_with=settings.expected(
            "questions",
            "shots",
            "candidates",
            "similarity",
            "judgements",
            "cross_similarity",
            "scores",
            "quality",
        ),
        code=code_hash("decisions"),
        program=not_compared(f"{SCRIPTS}/decisions.py"),
    shell:
        "python {params.program:q} --questions {input.questions:q} --shots {input.shots:q} --prompts {input.prompts:q}"
        " --candidates {input.candidates:q} --scores {input.scores:q} --quality {input.quality:q}"
        " --settings {params.settings:q} --made-with {params.made_with:q}"
        " --decisions {output.decisions:q} --scored {output.scored:q} > {log} 2>&1"
