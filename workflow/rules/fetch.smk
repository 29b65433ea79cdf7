rule fetch_model:
    output:
        model=update(f"{MODELS}/{{folder}}/fetched.json"),
    log:
        f"logs/{plan.name}/fetch_model/{{folder}}.log",
    priority: 3  # everything else waits for it
    conda:
        "../../envs/gpu.yaml"
    resources:
        mem_mb=plan.asked_mb(4000),
        runtime=240,
    params:
        settings=settings.fetch_model,
        program=not_compared(f"{SCRIPTS}/fetch_model.py"),
        lock=not_compared(LOCK),
    shell:
        "python {params.program:q} --settings {params.settings:q} --lock {params.lock:q}"
        " --model {output.model:q} > {log} 2>&1"


rule fetch_dataset:
    output:
        split=update(f"{DATASETS}/{{dataset}}/{{split}}.parquet"),
    log:
        f"logs/{plan.name}/fetch_dataset/{{dataset}}/{{split}}.log",
    priority: 3  # everything else waits for it
    conda:
        "../../envs/gpu.yaml"
    resources:
        mem_mb=plan.asked_mb(4000),
        runtime=120,
    params:
        settings=settings.fetch_dataset,
        program=not_compared(f"{SCRIPTS}/fetch_dataset.py"),
        lock=not_compared(LOCK),
    shell:
        "python {params.program:q} --settings {params.settings:q} --lock {params.lock:q}"
        " --split {output.split:q} > {log} 2>&1"
