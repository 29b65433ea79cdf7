rule comparison:
    input:
        study="results/{study}/study.json",
        tables=files.comparison,
    output:
        csv="results/{study}/comparison.csv",
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
    script:
        "../scripts/comparison.py"
