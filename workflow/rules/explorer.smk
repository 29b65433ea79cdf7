rule explorer:
    input:
        study="results/{study}/study.json",
        tables=files.explored,
    output:
        html=in_report(
            "results/{study}/explorer.html",
            "explorer.rst",
            page="question by question",
        ),
    log:
        "logs/{study}/explorer.log",
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=plan.asked_mb(4000),
        runtime=30,
    params:
        code=code_hash("explorer"),
        program=not_compared(f"{SCRIPTS}/explorer.py"),
    shell:
        "python {params.program:q} --study {input.study:q} --html {output.html:q} > {log} 2>&1"
