rule study:
    output:
        study="results/{study}/study.json",
    log:
        "logs/{study}/study.log",
    priority: 3  # every exhibit waits for it
    localrule: True
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=plan.asked_mb(500),
        runtime=5,
    params:
        settings=lambda wildcards: plan.study.as_run(),
        program=not_compared(f"{SCRIPTS}/write_study.py"),
    shell:
        "python {params.program:q} --settings {params.settings:q} --study {output.study:q} > {log} 2>&1"


rule table:
    input:
        study="results/{study}/study.json",
        tables=files.exhibit("table"),
    output:
        csv="results/{study}/tables/{name}.csv",
        tex="results/{study}/tables/{name}.tex",
        markdown="results/{study}/tables/{name}.md",
        html=in_report(
            "results/{study}/tables/{name}.html",
            "table.rst",
            category=plan.report_section("1 Tables"),
            table="{name}",
        ),
    log:
        "logs/{study}/table/{name}.log",
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=plan.asked_mb(2000),
        runtime=30,
    params:
        code=settings.exhibit_code,
        program=not_compared(f"{SCRIPTS}/table.py"),
    shell:
        "python {params.program:q} --name {wildcards.name:q} --study {input.study:q} --csv {output.csv:q}"
        " --tex {output.tex:q} --markdown {output.markdown:q} --html {output.html:q} > {log} 2>&1"


rule figure:
    input:
        study="results/{study}/study.json",
        tables=files.exhibit("figure"),
    output:
        pdf="figures/{study}/{name}.pdf",
        svg="figures/{study}/{name}.svg",
        png=in_report(
            "figures/{study}/{name}.png",
            "figure.rst",
            category=plan.report_section("2 Figures"),
            figure="{name}",
        ),
        csv="figures/{study}/{name}.csv",
        caption="figures/{study}/{name}.txt",
    log:
        "logs/{study}/figure/{name}.log",
    priority: 2  # as soon as what it reads is there, before more is decoded: there is something to look at
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=plan.asked_mb(2000),
        runtime=30,
    params:
        code=settings.exhibit_code,
        program=not_compared(f"{SCRIPTS}/figure.py"),
    shell:
        "python {params.program:q} --name {wildcards.name:q} --study {input.study:q} --pdf {output.pdf:q}"
        " --svg {output.svg:q} --png {output.png:q} --csv {output.csv:q} --caption {output.caption:q} > {log} 2>&1"
