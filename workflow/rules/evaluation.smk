rule evaluation:
    input:
        unpack(plan.inputs("evaluation")),
    output:
        **paths.patterns("evaluation"),
    log:
        paths.log("evaluation"),
    benchmark:
        paths.benchmarks("evaluation")
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    params:
        job=plan.job("evaluation"),
        machine=plan.machine_options("evaluation"),
    shell:
        "python -m beamuq.steps evaluation --job {params.job:q} --machine {params.machine:q} > {log} 2>&1"
