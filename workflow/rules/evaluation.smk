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


rule decisions:
    input:
        unpack(plan.inputs("decisions")),
    output:
        **paths.patterns("decisions"),
    log:
        paths.log("decisions"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    params:
        job=plan.job("decisions"),
        machine=plan.machine_options("decisions"),
    shell:
        "python -m beamuq.steps decisions --job {params.job:q} --machine {params.machine:q} > {log} 2>&1"
