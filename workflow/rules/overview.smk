rule overview:
    input:
        **plan.overview_inputs,
        study="<results>/study.json",
        code=step_sources("overview"),
    output:
        html=report(
            "<results>/overview.html",
            caption="../report/overview.rst",
            category="0 Study",
            labels={"page": "what the study was made of"},
        ),
        csv="<results>/answers.csv",
        listed=report(
            "<results>/answers_listed.csv",
            caption="../report/answers.rst",
            category="0 Study",
            labels={"page": "dropped, empty and cut answers by question"},
        ),
    log:
        "<logs>/overview.log",
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    shell:
        "python -m beamuq.steps.overview --study {input.study} --questions {input.questions}"
        " --candidates {input.candidates} --tables {input.tables} --manifests {input.manifests}"
        " --html {output.html} --csv {output.csv} --listed {output.listed} > {log} 2>&1"
