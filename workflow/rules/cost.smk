rule ledger:
    input:
        plan.evaluations(),
        code=step_sources("ledger"),
    output:
        csv="<results>/ledger.csv",
        markdown="<results>/ledger.md",
    log:
        "<logs>/ledger.log",
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    shell:
        "python -m beamuq.steps.ledger --csv {output.csv} --markdown {output.markdown} > {log} 2>&1"


rule estimate:
    log:
        "<logs>/estimate.log",
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    params:
        settings=plan.machine_settings,
    shell:
        "python -m beamuq.steps.estimate --settings {params.settings:q} --results results 2>&1 | tee {log}"
