rule similarity:
    input:
        unpack(plan.scorer_inputs),
        custom=plan.scorer_code,
    output:
        similarity="<results>/similarity/{scorer}/{model}/{dataset}/{recipe}.parquet",
    log:
        "<logs>/similarity/{scorer}/{model}/{dataset}/{recipe}.log",
    benchmark:
        "<benchmarks>/similarity/{scorer}/{model}/{dataset}/{recipe}.tsv"
    conda:
        "../../envs/gpu.yaml"
    threads: 1
    resources:
        gpu=plan.gpus,
        mem_mb=plan.memory_mb,
        runtime=120,
    params:
        settings=plan.scorer_settings,
        model=plan.scorer_model_option,
        memo=plan.memo,
        device=plan.device,
        dtype=plan.dtype,
    message:
        "comparing the answers of {wildcards.model} on {wildcards.dataset} by {wildcards.scorer}"
    shell:
        "python -m beamuq.steps.similarity --candidates {input.candidates} {params.model}"
        " --scorer-settings {params.settings:q} --device {params.device} --dtype {params.dtype} --memo {params.memo:q}"
        " --similarity {output.similarity} > {log} 2>&1"
