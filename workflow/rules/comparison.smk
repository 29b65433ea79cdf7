rule comparison:
    input:
        study="<results>/study.json",
        files=plan.comparison_inputs,
        code=plan.comparison_code,
    output:
        csv="<results>/comparison.csv",
        formulations="<results>/comparison_formulations.csv",
        claims="<results>/comparison_claims.csv",
        summary="<results>/comparison.json",
        markdown="<results>/comparison.md",
        html=report(
            "<results>/comparison.html",
            caption="../report/comparison.rst",
            category="0 Study",
            labels={"page": "compared with print"},
        ),
        pdf="<figures>/paired.pdf",
        svg="<figures>/paired.svg",
        png=report(
            "<figures>/paired.png",
            caption="../report/comparison.rst",
            category="0 Study",
            labels={"page": "beam minus multinomial, paired"},
        ),
        paired="<figures>/paired.csv",
        caption="<figures>/paired.txt",
    log:
        "<logs>/comparison.log",
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    params:
        results=plan.results,
    shell:
        "python -m beamuq.steps.comparison --study {input.study} --results {params.results} --csv {output.csv}"
        " --formulations {output.formulations} --claims {output.claims} --summary {output.summary}"
        " --markdown {output.markdown} --html {output.html} --forest-pdf {output.pdf} --forest-svg {output.svg}"
        " --forest-png {output.png} --forest-csv {output.paired} --forest-caption {output.caption} > {log} 2>&1"
