rule similarity:
    input:
        unpack(plan.inputs("similarity")),
    output:
        **paths.patterns("similarity"),
    log:
        paths.log("similarity"),
    benchmark:
        paths.benchmarks("similarity")
    conda:
        "../../envs/gpu.yaml"
    threads: 1
    resources:
        gpu=plan.gpus,
        mem_mb=plan.memory_mb,
        runtime=120,
    params:
        job=plan.job("similarity"),
        machine=plan.machine_options("similarity"),
    message:
        "comparing the answers of {wildcards.model} on {wildcards.dataset} by {wildcards.scorer}"
    shell:
        "python -m beamuq.steps similarity --job {params.job:q} --machine {params.machine:q} > {log} 2>&1"
