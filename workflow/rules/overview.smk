rule overview:
    input:
        study="results/{study}/study.json",
        manifests=files.manifests,
        tables=files.study_tables,
    output:
        html=in_report(
            "results/{study}/overview.html",
            "overview.rst",
            page="what the study was made of",
        ),
        csv="results/{study}/answers.csv",
        listed=in_report(
            "results/{study}/answers_listed.csv",
            "answers.rst",
            page="dropped, empty and cut answers by question",
        ),
    log:
        "logs/{study}/overview.log",
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=4000,
        runtime=20,
    params:
        code=code_hash("overview"),
    script:
        "../scripts/overview.py"
