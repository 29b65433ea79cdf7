rule quality:
    input:
        unpack(plan.inputs("quality")),
    output:
        **paths.patterns("quality"),
    log:
        paths.log("quality"),
    benchmark:
        paths.benchmarks("quality")
    conda:
        "../../envs/gpu.yaml"
    threads: 1
    resources:
        gpu=plan.quality_gpus,
        mem_mb=plan.memory_mb,
        runtime=60,
    params:
        job=plan.job("quality"),
        machine=plan.machine_options("quality"),
    shell:
        "python -m beamuq.steps quality --job {params.job:q} --machine {params.machine:q} > {log} 2>&1"
