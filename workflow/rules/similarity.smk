rule similarity:
    input:
        candidates="results/{study}/candidates/{model}/{dataset}/{recipe}.parquet",
        model=files.model("similarity"),
        plugins=files.plugins("similarity"),
    output:
        similarity="results/{study}/similarity/{scorer}/{model}/{dataset}/{recipe}.parquet",
    log:
        "logs/{study}/similarity/{scorer}/{model}/{dataset}/{recipe}.log",
    priority: plan.priority
    conda:
        "../../envs/gpu.yaml"
    resources:
        gpu=plan.gpus("similarity"),
        mem_mb=plan.memory_mb,
        runtime=120,
    params:
        settings=settings.similarity,
        made_with=settings.made_with("candidates"),
        loading=settings.loading("similarity"),
        program=not_compared(f"{SCRIPTS}/similarity.py"),
        cache=not_compared(CACHE),
    shell:
        "python {params.program:q} --candidates {input.candidates:q} --model {input.model:q}"
        " --settings {params.settings:q} --made-with {params.made_with:q} --loading {params.loading:q}"
        " --cache {params.cache:q} --threads {threads} --similarity {output.similarity:q} > {log} 2>&1"
