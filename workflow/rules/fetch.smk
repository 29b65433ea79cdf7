rule fetch_model:
    output:
        model="<models>/{folder}/fetched.json",
    log:
        "<logs>/fetch_model/{folder}.log",
    conda:
        "../../envs/gpu.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=240,
    params:
        source=plan.source_of_folder,
        lock=plan.lock_option,
    message:
        "fetching the model {wildcards.folder}"
    shell:
        "python -m beamuq.steps.fetch_model --source {params.source:q} --lock {params.lock:q}"
        " --model {output.model} > {log} 2>&1"


rule fetch_dataset:
    output:
        split="<datasets>/{dataset}/{split}.parquet",
    log:
        "<logs>/fetch_dataset/{dataset}/{split}.log",
    conda:
        "../../envs/gpu.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=120,
    params:
        source=plan.dataset_source,
        lock=plan.lock_option,
    message:
        "fetching the dataset {wildcards.dataset}, split {wildcards.split}"
    shell:
        "python -m beamuq.steps.fetch_dataset --settings {params.source:q} --lock {params.lock:q}"
        " --split-name {wildcards.split} --split {output.split} > {log} 2>&1"


rule fetched_page:
    input:
        plan.fetched(),
        lock=plan.lock_if_there,
        code=step_sources("fetched"),
    output:
        page="<results>/fetched.md",
    log:
        "<logs>/fetched_page.log",
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        settings=plan.machine_settings,
        facts=plan.fetched_facts,
    shell:
        "python -m beamuq.steps.fetched --settings {params.settings:q} --page {output.page} > {log} 2>&1"


rule fetched:
    input:
        page="<results>/fetched.md",
    log:
        "<logs>/fetched.log",
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    shell:
        "cat {input.page} | tee {log}"
