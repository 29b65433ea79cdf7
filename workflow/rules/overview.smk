rule overview:
    input:
        study="results/{study}/study.json",
        manifests=files.manifests,
        tables=files.study_tables,
        exhibits=[
            "figures/{study}/paired.pdf",
            *plan.targets["tables"],
            *plan.targets["figures"],
        ],
        claims="results/{study}/comparison_claims.csv",
        linked=["results/{study}/explorer.html", "results/{study}/ledger.html"],
    output:
        html=in_report(
            "results/{study}/overview.html",
            "overview.rst",
            page="what was found, and what it was made of",
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
        mem_mb=plan.asked_mb(4000),
        runtime=20,
    params:
        code=code_hash("overview"),
        program=not_compared(f"{SCRIPTS}/overview.py"),
    shell:
        "python {params.program:q} --study {input.study:q} --manifests {input.manifests:q}"
        " --exhibits {input.exhibits:q} --claims {input.claims:q} --html {output.html:q} --csv {output.csv:q}"
        " --listed {output.listed:q} > {log} 2>&1"
