rule quality:
    input:
        **plan.quality_models,
        questions="<results>/questions/{dataset}.parquet",
        candidates="<results>/candidates/{model}/{dataset}/{recipe}.parquet",
        custom=plan.quality_code,
    output:
        quality="<results>/quality/{metric}/{model}/{dataset}/{recipe}.parquet",
    log:
        "<logs>/quality/{metric}/{model}/{dataset}/{recipe}.log",
    benchmark:
        "<benchmarks>/quality/{metric}/{model}/{dataset}/{recipe}.tsv"
    conda:
        "../../envs/gpu.yaml"
    threads: 1
    resources:
        gpu=plan.quality_gpus,
        mem_mb=plan.memory_mb,
        runtime=60,
    params:
        settings=plan.quality_settings,
        model=plan.quality_model_option,
        memo=plan.memo,
        device=plan.device,
        dtype=plan.dtype,
    shell:
        "python -m beamuq.steps.quality --questions {input.questions} --candidates {input.candidates} {params.model}"
        " --settings {params.settings:q} --device {params.device} --dtype {params.dtype} --memo {params.memo:q}"
        " --quality {output.quality} > {log} 2>&1"
