rule comparison:
    input:
        study="results/{study}/study.json",
        tables=files.comparison,
    output:
        csv="results/{study}/comparison.csv",
        mean_differences="results/{study}/comparison_tables.csv",
        claims="results/{study}/comparison_claims.csv",
        html=in_report(
            "results/{study}/comparison.html",
            "comparison.rst",
            page="compared with the paper",
        ),
        forest_pdf="figures/{study}/paired.pdf",
        forest_svg="figures/{study}/paired.svg",
        forest_png=in_report(
            "figures/{study}/paired.png",
            "comparison.rst",
            page="beam minus multinomial, paired",
        ),
        forest_csv="figures/{study}/paired.csv",
        forest_caption="figures/{study}/paired.txt",
    log:
        "logs/{study}/comparison.log",
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=plan.asked_mb(2000),
        runtime=20,
    params:
        code=code_hash("comparison"),
        program=not_compared(f"{SCRIPTS}/comparison.py"),
    shell:
        "python {params.program:q} --study {input.study:q} --csv {output.csv:q} --mean-differences {output.mean_differences:q}"
        " --claims {output.claims:q} --html {output.html:q} --forest-pdf {output.forest_pdf:q} --forest-svg {output.forest_svg:q}"
        " --forest-png {output.forest_png:q} --forest-csv {output.forest_csv:q}"
        " --forest-caption {output.forest_caption:q} > {log} 2>&1"
