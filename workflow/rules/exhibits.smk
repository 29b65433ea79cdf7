rule study:
    output:
        **paths.patterns("study"),
    log:
        paths.log("study"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    params:
        job=plan.job("study"),
        machine=plan.machine_options("study"),
    shell:
        "python -m beamuq.steps study --job {params.job:q} --machine {params.machine:q} > {log} 2>&1"


rule table:
    input:
        unpack(plan.inputs("table")),
    output:
        **paths.flagged(
            "table",
            html=in_report(
                "table.rst", plan.report_section("1 Tables"), table="{name}"
            ),
        ),
    log:
        paths.log("table"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        job=plan.job("table"),
        machine=plan.machine_options("table"),
    shell:
        "python -m beamuq.steps table --job {params.job:q} --machine {params.machine:q} > {log} 2>&1"


rule figure:
    input:
        unpack(plan.inputs("figure")),
    output:
        **paths.flagged(
            "figure",
            png=in_report(
                "figure.rst", plan.report_section("2 Figures"), figure="{name}"
            ),
        ),
    log:
        paths.log("figure"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        job=plan.job("figure"),
        machine=plan.machine_options("figure"),
    shell:
        "python -m beamuq.steps figure --job {params.job:q} --machine {params.machine:q} > {log} 2>&1"
