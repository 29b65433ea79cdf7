rule candidates:
    input:
        unpack(plan.candidates_inputs),
        custom=plan.custom_policies,
    output:
        candidates="<results>/candidates/{model}/{dataset}/{recipe}.parquet",
    log:
        "<logs>/candidates/{model}/{dataset}/{recipe}.log",
    benchmark:
        "<benchmarks>/candidates/{model}/{dataset}/{recipe}.tsv"
    conda:
        "../../envs/gpu.yaml"
    threads: 1
    resources:
        gpu=plan.candidates_gpus,
        mem_mb=plan.memory_mb,
        runtime=240,
    params:
        settings=plan.candidates_settings,
        shards=plan.shards_option,
        device=plan.device,
        dtype=plan.dtype,
    message:
        "decoding {wildcards.dataset} with {wildcards.model}, recipe {wildcards.recipe}"
    shell:
        "python -m beamuq.steps.candidates --prompts {input.prompts} --model {input.model:q}"
        " --settings {params.settings:q} --device {params.device} --dtype {params.dtype}"
        " --threads {threads} {params.shards} --candidates {output.candidates} > {log} 2>&1"


rule candidates_shard:
    input:
        unpack(plan.decoding_inputs),
        custom=plan.custom_policies,
    output:
        candidates=temp(
            "<results>/candidates/{model}/{dataset}/{recipe}.shards/{shard}.parquet"
        ),
    log:
        "<logs>/candidates_shard/{model}/{dataset}/{recipe}/{shard}.log",
    benchmark:
        "<benchmarks>/candidates_shard/{model}/{dataset}/{recipe}/{shard}.tsv"
    conda:
        "../../envs/gpu.yaml"
    threads: 1
    resources:
        gpu=plan.gpus,
        mem_mb=plan.memory_mb,
        runtime=240,
    params:
        settings=plan.candidates_settings,
        device=plan.device,
        dtype=plan.dtype,
    message:
        "decoding {wildcards.dataset} with {wildcards.model}, recipe {wildcards.recipe}, shard {wildcards.shard}"
    shell:
        "python -m beamuq.steps.candidates --prompts {input.prompts} --model {input.model:q}"
        " --settings {params.settings:q} --device {params.device} --dtype {params.dtype}"
        " --threads {threads} --shard {wildcards.shard} --candidates {output.candidates} > {log} 2>&1"
