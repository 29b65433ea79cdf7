rule fetch_model:
    output:
        **paths.flagged("fetch_model", model=update),
    log:
        paths.log("fetch_model"),
    conda:
        "../../envs/gpu.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=240,
    params:
        job=plan.job("fetch_model"),
        machine=plan.machine_options("fetch_model"),
    message:
        "fetching the model {wildcards.folder}"
    shell:
        "python -m beamuq.steps fetch_model --job {params.job:q} --machine {params.machine:q} > {log} 2>&1"


rule fetch_dataset:
    output:
        **paths.flagged("fetch_dataset", split=update),
    log:
        paths.log("fetch_dataset"),
    conda:
        "../../envs/gpu.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=120,
    params:
        job=plan.job("fetch_dataset"),
        machine=plan.machine_options("fetch_dataset"),
    message:
        "fetching the dataset {wildcards.dataset}, split {wildcards.split}"
    shell:
        "python -m beamuq.steps fetch_dataset --job {params.job:q} --machine {params.machine:q} > {log} 2>&1"
