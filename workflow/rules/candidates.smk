rule candidates:
    input:
        unpack(plan.inputs("candidates")),
    output:
        **paths.patterns("candidates"),
    log:
        paths.log("candidates"),
    benchmark:
        paths.benchmarks("candidates")
    conda:
        "../../envs/gpu.yaml"
    threads: 1
    resources:
        gpu=plan.candidates_gpus,
        mem_mb=plan.memory_mb,
        runtime=240,
    params:
        job=plan.job("candidates"),
        machine=plan.machine_options("candidates"),
    message:
        "decoding {wildcards.dataset} with {wildcards.model}, recipe {wildcards.recipe}"
    shell:
        "python -m beamuq.steps candidates --job {params.job:q} --machine {params.machine:q} > {log} 2>&1"


rule candidates_shard:
    input:
        unpack(plan.inputs("candidates_shard")),
    output:
        **paths.flagged(
            "candidates_shard",
            candidates=temp,
        ),
    log:
        paths.log("candidates_shard"),
    benchmark:
        paths.benchmarks("candidates_shard")
    conda:
        "../../envs/gpu.yaml"
    threads: 1
    resources:
        gpu=plan.shard_gpus,
        mem_mb=plan.memory_mb,
        runtime=240,
    params:
        job=plan.job("candidates_shard"),
        machine=plan.machine_options("candidates_shard"),
    message:
        "decoding {wildcards.dataset} with {wildcards.model}, recipe {wildcards.recipe}, shard {wildcards.shard}"
    shell:
        "python -m beamuq.steps candidates --job {params.job:q} --machine {params.machine:q} > {log} 2>&1"
