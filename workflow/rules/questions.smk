rule questions:
    input:
        unpack(plan.inputs("questions")),
    output:
        **paths.patterns("questions"),
    log:
        paths.log("questions"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        job=plan.job("questions"),
        machine=plan.machine_options("questions"),
    shell:
        "python -m beamuq.steps questions --job {params.job:q} --machine {params.machine:q} > {log} 2>&1"


rule prompts:
    input:
        unpack(plan.inputs("prompts")),
    output:
        **paths.patterns("prompts"),
    log:
        paths.log("prompts"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        job=plan.job("prompts"),
        machine=plan.machine_options("prompts"),
    shell:
        "python -m beamuq.steps prompts --job {params.job:q} --machine {params.machine:q} > {log} 2>&1"
