rule ledger:
    input:
        unpack(plan.ledger_inputs),
        study="<results>/study.json",
        code=step_sources("ledger"),
    output:
        csv="<results>/ledger.csv",
        markdown="<results>/ledger.md",
        html=report(
            "<results>/ledger.html",
            caption="../report/ledger.rst",
            category="0 Study",
            labels={"page": "what it cost"},
        ),
    log:
        "<logs>/ledger.log",
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    shell:
        "python -m beamuq.steps.ledger --study {input.study} --tables {input.tables} --csv {output.csv}"
        " --markdown {output.markdown} --html {output.html} > {log} 2>&1"


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
