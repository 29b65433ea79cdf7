rule statistics:
    input:
        unpack(plan.inputs("statistics")),
    output:
        **paths.patterns("statistics"),
    log:
        paths.log("statistics"),
    benchmark:
        paths.benchmarks("statistics")
    conda:
        "../../envs/gpu.yaml"
    threads: 1
    resources:
        gpu=plan.statistics_gpus,
        mem_mb=plan.memory_mb,
        runtime=240,
    params:
        job=plan.job("statistics"),
        machine=plan.machine_options("statistics"),
    message:
        "asking of the answers of {wildcards.model} on {wildcards.dataset}, recipe {wildcards.recipe}"
    shell:
        "python -m beamuq.steps statistics --job {params.job:q} --machine {params.machine:q} > {log} 2>&1"
