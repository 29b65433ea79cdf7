rule judgements:
    input:
        questions="results/{study}/questions/{dataset}.parquet",
        candidates="results/{study}/candidates/{model}/{dataset}/{recipe}.parquet",
        template=files.p_true_template,
        language_model=files.model("judgements", "language_model"),
        nli=files.model("judgements", "nli"),
        relevance=files.model("judgements", "relevance"),
        plugins=files.plugins("judgements"),
    output:
        judgements="results/{study}/judgements/{model}/{dataset}/{recipe}.parquet",
    log:
        "logs/{study}/judgements/{model}/{dataset}/{recipe}.log",
    priority: plan.priority
    conda:
        "../../envs/gpu.yaml"
    resources:
        gpu=plan.gpus("judgements"),
        server=plan.servers("judgements"),
        mem_mb=plan.memory_mb,
        runtime=240,
    params:
        settings=settings.judgements,
        made_with=settings.made_with("questions", "candidates"),
        loading=settings.loading("judgements"),
        cards=not_compared(plan.cards),
        program=not_compared(f"{SCRIPTS}/model_judgements.py"),
        cache=not_compared(CACHE),
    shell:
        "python {params.program:q} --questions {input.questions:q} --candidates {input.candidates:q}"
        " --template {input.template:q} --language-model {input.language_model:q} --nli {input.nli:q}"
        " --relevance {input.relevance:q} --settings {params.settings:q} --made-with {params.made_with:q}"
        " --loading {params.loading:q} --cards {params.cards} --cache {params.cache:q} --threads {threads}"
        " --judgements {output.judgements:q} > {log} 2>&1"
