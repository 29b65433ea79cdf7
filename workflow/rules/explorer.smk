rule explorer:
    input:
        unpack(plan.inputs("explorer")),
    output:
        **paths.flagged(
            "explorer",
            html=in_report("explorer.rst", "0 Study", page="question by question"),
        ),
    log:
        paths.log("explorer"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        job=plan.job("explorer"),
        machine=plan.machine_options("explorer"),
    shell:
        "python -m beamuq.steps explorer --job {params.job:q} --machine {params.machine:q} > {log} 2>&1"
