rule study:
    output:
        study="<results>/study.json",
    log:
        "<logs>/study.log",
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    params:
        study=plan.exhibit_study,
    shell:
        "printf '%s\\n' {params.study:q} > {output.study} 2> {log}"


rule table:
    input:
        study="<results>/study.json",
        files=plan.exhibit_inputs,
        code=plan.exhibit_code,
    output:
        csv="<results>/tables/{name}.csv",
        tex="<results>/tables/{name}.tex",
        markdown="<results>/tables/{name}.md",
        html=report(
            "<results>/tables/{name}.html",
            caption="../report/table.rst",
            category="1 Tables",
            labels={"table": "{name}", "style": "paper"},
        ),
        intervals_tex="<results>/tables/intervals/{name}.tex",
        intervals_markdown="<results>/tables/intervals/{name}.md",
        intervals_html=report(
            "<results>/tables/intervals/{name}.html",
            caption="../report/table.rst",
            category="1 Tables",
            labels={"table": "{name}", "style": "intervals"},
        ),
    log:
        "<logs>/table/{name}.log",
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    shell:
        "python -m beamuq.steps.table --name {wildcards.name} --study {input.study}"
        " --csv {output.csv} --tex {output.tex} --markdown {output.markdown} --html {output.html}"
        " --intervals-tex {output.intervals_tex} --intervals-markdown {output.intervals_markdown} --intervals-html {output.intervals_html}"
        " > {log} 2>&1"


rule figure:
    input:
        study="<results>/study.json",
        files=plan.exhibit_inputs,
        code=plan.exhibit_code,
    output:
        pdf="<figures>/{name}.pdf",
        svg="<figures>/{name}.svg",
        png=report(
            "<figures>/{name}.png",
            caption="../report/figure.rst",
            category="2 Figures",
            labels={"figure": "{name}"},
        ),
        csv="<figures>/{name}.csv",
        caption="<figures>/{name}.txt",
    log:
        "<logs>/figure/{name}.log",
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    shell:
        "python -m beamuq.steps.figure --name {wildcards.name} --study {input.study}"
        " --pdf {output.pdf} --svg {output.svg} --png {output.png} --csv {output.csv} --caption {output.caption}"
        " > {log} 2>&1"
