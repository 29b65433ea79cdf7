rule scores:
    input:
        unpack(plan.inputs("scores")),
    output:
        **paths.patterns("scores"),
    log:
        paths.log("scores"),
    benchmark:
        paths.benchmarks("scores")
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    params:
        job=plan.job("scores"),
        machine=plan.machine_options("scores"),
    shell:
        "python -m beamuq.steps scores --job {params.job:q} --machine {params.machine:q} > {log} 2>&1"
