rule quality:
    input:
        questions="results/{study}/questions/{dataset}.parquet",
        candidates="results/{study}/candidates/{model}/{dataset}/{recipe}.parquet",
        model=files.model("quality"),
        backbone=files.model("quality", "backbone"),
        plugins=files.plugins("quality"),
    output:
        quality="results/{study}/quality/{metric}/{model}/{dataset}/{recipe}.parquet",
    log:
        "logs/{study}/quality/{metric}/{model}/{dataset}/{recipe}.log",
    priority: plan.priority
    conda:
        "../../envs/gpu.yaml"
    resources:
        gpu=plan.gpus("quality"),
        mem_mb=plan.memory_mb,
        runtime=60,
    params:
        settings=settings.quality,
        made_with=settings.made_with("questions", "candidates"),
        loading=settings.loading("quality"),
        program=not_compared(f"{SCRIPTS}/quality.py"),
        cache=not_compared(CACHE),
    shell:
        "python {params.program:q} --questions {input.questions:q} --candidates {input.candidates:q}"
        " --model {input.model:q} --backbone {input.backbone:q} --settings {params.settings:q}"
        " --made-with {params.made_with:q} --loading {params.loading:q} --cache {params.cache:q} --threads {threads}"
        " --quality {output.quality:q} > {log} 2>&1"
