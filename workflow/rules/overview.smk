rule overview:
    input:
        unpack(plan.inputs("overview")),
    output:
        **paths.flagged(
            "overview",
            html=in_report(
                "overview.rst", "0 Study", page="what the study was made of"
            ),
            listed=in_report(
                "answers.rst",
                "0 Study",
                page="dropped, empty and cut answers by question",
            ),
        ),
    log:
        paths.log("overview"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    params:
        job=plan.job("overview"),
        machine=plan.machine_options("overview"),
    shell:
        "python -m beamuq.steps overview --job {params.job:q} --machine {params.machine:q} > {log} 2>&1"
