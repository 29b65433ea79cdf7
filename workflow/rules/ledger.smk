rule ledger:
    input:
        unpack(plan.inputs("ledger")),
    output:
        **paths.flagged(
            "ledger",
            html=in_report("ledger.rst", "0 Study", page="what it cost"),
        ),
    log:
        paths.log("ledger"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    params:
        job=plan.job("ledger"),
        machine=plan.machine_options("ledger"),
    shell:
        "python -m beamuq.steps ledger --job {params.job:q} --machine {params.machine:q} > {log} 2>&1"
