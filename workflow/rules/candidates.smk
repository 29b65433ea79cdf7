rule candidates:
    input:
        prompts=files.prompts,
        model=files.model("candidates"),
        shards=files.shards,
        plugins=files.plugins("candidates"),
    output:
        candidates="results/{study}/candidates/{model}/{dataset}/{recipe}.parquet",
    log:
        "logs/{study}/candidates/{model}/{dataset}/{recipe}.log",
    priority: plan.priority
    conda:
        "../../envs/gpu.yaml"
    resources:
        gpu=plan.gpus("candidates"),
        server=plan.servers("candidates"),
        mem_mb=plan.memory_mb,
        runtime=240,
    params:
        settings=settings.candidates,
        loading=settings.loading("candidates"),
        cards=not_compared(plan.cards),
        program=not_compared(f"{SCRIPTS}/candidates.py"),
    message:
        "decoding {wildcards.dataset} with {wildcards.model}, recipe {wildcards.recipe}"
    shell:
        "python {params.program:q} --prompts {input.prompts:q} --model {input.model:q} --shards {input.shards:q}"
        " --settings {params.settings:q} --loading {params.loading:q} --cards {params.cards} --threads {threads}"
        " --candidates {output.candidates:q} > {log} 2>&1"


rule candidates_shard:
    input:
        prompts=files.prompts,
        model=files.model("candidates"),
        plugins=files.plugins("candidates"),
    output:
        candidates=temp(
            "results/{study}/candidates/{model}/{dataset}/{recipe}.shards/{shard}.parquet"
        ),
    log:
        "logs/{study}/candidates_shard/{model}/{dataset}/{recipe}/{shard}.log",
    priority: plan.priority
    conda:
        "../../envs/gpu.yaml"
    resources:
        gpu=plan.gpus("candidates_shard"),
        server=plan.servers("candidates_shard"),
        mem_mb=plan.memory_mb,
        runtime=240,
    params:
        settings=settings.candidates,
        loading=settings.loading("candidates"),
        cards=not_compared(plan.cards),
        program=not_compared(f"{SCRIPTS}/candidates.py"),
    message:
        "decoding {wildcards.dataset} with {wildcards.model}, recipe {wildcards.recipe}, shard {wildcards.shard}"
    shell:
        "python {params.program:q} --prompts {input.prompts:q} --model {input.model:q} --shard {wildcards.shard}"
        " --settings {params.settings:q} --loading {params.loading:q} --cards {params.cards} --threads {threads}"
        " --candidates {output.candidates:q} > {log} 2>&1"
