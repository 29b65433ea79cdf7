rule statistics:
    input:
        questions="results/{study}/questions/{dataset}.parquet",
        candidates="results/{study}/candidates/{model}/{dataset}/{recipe}.parquet",
        template=files.p_true_template,
        language_model=files.model("statistics", "language_model"),
        nli=files.model("statistics", "nli"),
        relevance=files.model("statistics", "relevance"),
        plugins=files.plugins("statistics"),
    output:
        statistics="results/{study}/statistics/{model}/{dataset}/{recipe}.parquet",
    log:
        "logs/{study}/statistics/{model}/{dataset}/{recipe}.log",
    benchmark:
        "results/{study}/benchmarks/statistics/{model}/{dataset}/{recipe}.tsv"
    conda:
        "../../envs/gpu.yaml"
    resources:
        gpu=plan.statistics_gpus,
        mem_mb=plan.memory_mb,
        runtime=240,
    params:
        settings=settings.statistics,
        made_with=settings.made_with("questions", "candidates"),
        loading=settings.loading("statistics"),
        cards=not_compared(plan.cards),
        program=not_compared(f"{SCRIPTS}/judgements.py"),
        cache=not_compared(CACHE),
    message:
        "asking of the answers of {wildcards.model} on {wildcards.dataset}, recipe {wildcards.recipe}"
    shell:
        "python {params.program:q} --questions {input.questions:q} --candidates {input.candidates:q}"
        " --template {input.template:q} --language-model {input.language_model:q} --nli {input.nli:q}"
        " --relevance {input.relevance:q} --settings {params.settings:q} --made-with {params.made_with:q}"
        " --loading {params.loading:q} --cards {params.cards} --cache {params.cache:q} --threads {threads}"
        " --statistics {output.statistics:q} > {log} 2>&1"
