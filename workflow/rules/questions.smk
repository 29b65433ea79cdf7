rule questions:
    input:
        split=files.split,
        few_shot_split=files.few_shot_split,
    output:
        questions="results/{study}/questions/{dataset}.parquet",
        shots="results/{study}/shots/{dataset}.parquet",
    log:
        "logs/{study}/questions/{dataset}.log",
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=plan.asked_mb(2000),
        runtime=10,
    params:
        settings=settings.questions,
        format=FORMATS["questions"],
        program=not_compared(f"{SCRIPTS}/questions.py"),
    shell:
        "python {params.program:q} --split {input.split:q} --few-shot-split {input.few_shot_split:q}"
        " --settings {params.settings:q} --questions {output.questions:q} --shots {output.shots:q} > {log} 2>&1"


rule prompts:
    input:
        template=files.template,
        questions="results/{study}/questions/{dataset}.parquet",
        shots="results/{study}/shots/{dataset}.parquet",
    output:
        prompts="results/{study}/prompts/{style}/{dataset}.parquet",
    log:
        "logs/{study}/prompts/{style}/{dataset}.log",
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=plan.asked_mb(2000),
        runtime=10,
    params:
        made_with=settings.made_with("questions", "shots"),
        format=FORMATS["prompts"],
        program=not_compared(f"{SCRIPTS}/prompts.py"),
    shell:
        "python {params.program:q} --template {input.template:q} --questions {input.questions:q}"
        " --shots {input.shots:q} --style {wildcards.style} --dataset {wildcards.dataset}"
        " --made-with {params.made_with:q} --prompts {output.prompts:q} > {log} 2>&1"
