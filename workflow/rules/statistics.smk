rule statistics:
    input:
        unpack(plan.statistics_inputs),
        custom=plan.statistics_code,
    output:
        statistics="<results>/statistics/{model}/{dataset}/{recipe}.parquet",
    log:
        "<logs>/statistics/{model}/{dataset}/{recipe}.log",
    benchmark:
        "<benchmarks>/statistics/{model}/{dataset}/{recipe}.tsv"
    conda:
        "../../envs/gpu.yaml"
    threads: 1
    resources:
        gpu=plan.gpus,
        mem_mb=plan.memory_mb,
        runtime=240,
    params:
        settings=plan.statistics_settings,
        models=plan.statistics_options,
        memo=plan.memo,
        device=plan.device,
        dtype=plan.dtype,
    message:
        "asking of the answers of {wildcards.model} on {wildcards.dataset}, recipe {wildcards.recipe}"
    shell:
        "python -m beamuq.steps.statistics --questions {input.questions} --candidates {input.candidates}"
        " --settings {params.settings:q} {params.models} --memo {params.memo:q} --device {params.device}"
        " --dtype {params.dtype} --statistics {output.statistics} > {log} 2>&1"
