rule beams_map:
    input:
        questions="results/{study}/questions/{dataset}.parquet",
        candidates="results/{study}/candidates/{model}/{dataset}/{recipe}.parquet",
        similarity="results/{study}/similarity/{scorer}/{model}/{dataset}/{recipe}.parquet",
        quality=files.quality,
    output:
        beams_map="results/{study}/beams_map/{scorer}/{model}/{dataset}/{recipe}.parquet",
    log:
        "logs/{study}/beams_map/{scorer}/{model}/{dataset}/{recipe}.log",
    priority: plan.priority
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=plan.asked_mb(4000),
        runtime=60,
    params:
        settings=settings.beams_map,
        made_with=settings.expected("questions", "candidates", "similarity", "quality"),
        code=code_hash("beams_map"),
        program=not_compared(f"{SCRIPTS}/beams_map.py"),
    shell:
        "python {params.program:q} --questions {input.questions:q} --candidates {input.candidates:q}"
        " --similarity {input.similarity:q} --quality {input.quality:q} --settings {params.settings:q}"
        " --made-with {params.made_with:q} --beams-map {output.beams_map:q} > {log} 2>&1"
