rule questions:
    input:
        unpack(plan.questions_inputs),
    output:
        questions="<results>/questions/{dataset}.parquet",
        shots="<results>/shots/{dataset}.parquet",
    log:
        "<logs>/questions/{dataset}.log",
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        settings=plan.questions_settings,
        few_shot_split=plan.few_shot_option,
        format=FORMATS["questions"],
    shell:
        "python -m beamuq.steps.questions --split {input.split:q} {params.few_shot_split}"
        " --settings {params.settings:q} --questions {output.questions} --shots {output.shots} > {log} 2>&1"


rule prompts:
    input:
        template=plan.template,
        questions="<results>/questions/{dataset}.parquet",
        shots="<results>/shots/{dataset}.parquet",
    output:
        prompts="<results>/prompts/{style}/{dataset}.parquet",
    log:
        "<logs>/prompts/{style}/{dataset}.log",
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        settings=plan.prompts_settings,
        format=FORMATS["prompts"],
    shell:
        "python -m beamuq.steps.prompts --template {input.template} --questions {input.questions} --shots {input.shots}"
        " --settings {params.settings:q} --prompts {output.prompts} > {log} 2>&1"
