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
    benchmark:
        "results/{study}/benchmarks/beams_map/{scorer}/{model}/{dataset}/{recipe}.tsv"
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=plan.asked_mb(4000),
        runtime=60,
    params:
        settings=settings.beams_map,
        made_with=settings.made_with("questions", "candidates", "similarity", "quality"),
        code=code_hash("beams_map"),
    script:
        "../scripts/beams_map.py"
