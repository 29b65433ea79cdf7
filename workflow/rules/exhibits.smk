rule study:
    output:
        study="results/{study}/study.json",
    log:
        "logs/{study}/study.log",
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=plan.asked_mb(500),
        runtime=5,
    params:
        settings=lambda wildcards: plan.study.as_run(),
    script:
        "../scripts/write_study.py"


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
    script:
        "../scripts/table.py"


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
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=plan.asked_mb(2000),
        runtime=30,
    params:
        code=settings.exhibit_code,
    script:
        "../scripts/figure.py"
