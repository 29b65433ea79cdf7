rule ledger:
    input:
        study="results/{study}/study.json",
        measured=files.measured,
    output:
        csv="results/{study}/ledger.csv",
        markdown="results/{study}/ledger.md",
        html=in_report("results/{study}/ledger.html", "ledger.rst", page="what it cost"),
    log:
        "logs/{study}/ledger.log",
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=plan.asked_mb(4000),
        runtime=20,
    params:
        code=code_hash("job_costs"),
    script:
        "../scripts/job_costs.py"
