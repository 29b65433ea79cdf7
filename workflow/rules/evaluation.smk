rule evaluation:
    input:
        unpack(plan.evaluation_inputs),
        code=step_sources("evaluation"),
    output:
        evaluation="<results>/evaluation/{scorer}/{model}/{dataset}/{recipe}.parquet",
        replicates="<results>/replicates/{scorer}/{model}/{dataset}/{recipe}.parquet",
    log:
        "<logs>/evaluation/{scorer}/{model}/{dataset}/{recipe}.log",
    benchmark:
        "<benchmarks>/evaluation/{scorer}/{model}/{dataset}/{recipe}.tsv"
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    params:
        settings=plan.evaluation_settings,
    shell:
        "python -m beamuq.steps.evaluation --questions {input.questions} --scores {input.scores}"
        " --quality {input.quality} --settings {params.settings:q}"
        " --evaluation {output.evaluation} --replicates {output.replicates} > {log} 2>&1"
