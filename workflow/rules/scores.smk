rule scores:
    input:
        unpack(plan.scores_inputs),
        code=plan.scores_code,
    output:
        scores="<results>/scores/{scorer}/{model}/{dataset}/{recipe}.parquet",
    log:
        "<logs>/scores/{scorer}/{model}/{dataset}/{recipe}.log",
    benchmark:
        "<benchmarks>/scores/{scorer}/{model}/{dataset}/{recipe}.tsv"
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    params:
        settings=plan.scores_settings,
        tables=plan.scores_options,
    shell:
        "python -m beamuq.steps.scores --questions {input.questions} --candidates {input.candidates}"
        " --similarity {input.similarity} {params.tables} --settings {params.settings:q} --scores {output.scores} > {log} 2>&1"
