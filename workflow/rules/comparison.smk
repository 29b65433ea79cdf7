rule comparison:
    input:
        unpack(plan.inputs("comparison")),
    output:
        **paths.flagged(
            "comparison",
            html=in_report("comparison.rst", "0 Study", page="compared with print"),
            forest_png=in_report(
                "comparison.rst", "0 Study", page="beam minus multinomial, paired"
            ),
        ),
    log:
        paths.log("comparison"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    params:
        job=plan.job("comparison"),
        machine=plan.machine_options("comparison"),
    shell:
        "python -m beamuq.steps comparison --job {params.job:q} --machine {params.machine:q} > {log} 2>&1"
