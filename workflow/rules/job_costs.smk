rule ledger:
    input:
        study="results/{study}/study.json",
        counted=files.counted(),
        exhibits=[*plan.targets["tables"], *plan.targets["figures"]],
    output:
        csv="results/{study}/ledger.csv",
        markdown="results/{study}/ledger.md",
        html=in_report("results/{study}/ledger.html", "ledger.rst", page="what it cost"),
    log:
        "logs/{study}/ledger.log",
    localrule: True
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=plan.asked_mb(4000),
        runtime=20,
    params:
        code=code_hash("job_costs"),
        program=not_compared(f"{SCRIPTS}/job_costs.py"),
    shell:
        "python {params.program:q} --study {input.study:q} --exhibits {input.exhibits:q}"
        " --csv {output.csv:q} --markdown {output.markdown:q}"
        " --html {output.html:q} > {log} 2>&1"
