"""Write ``samples_facts.jsonl`` beside, by lm-eval itself and the packaged SmolLM2.

``python tests/lm_eval_logs/make_logs.py`` in an environment with lm-eval (0.4.13 wrote it),
transformers and the packaged model.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
MODEL = FOLDER.parents[1] / "resources/models/smollm2-135m-instruct"
QUESTIONS = [
    {"question": "What is the capital of Italy?", "answer": "Rome"},
    {"question": "How many legs has a spider?", "answer": "8"},
]
TASK = {
    "task": "facts",
    "dataset_path": "json",
    "test_split": "test",
    "output_type": "generate_until",
    "doc_to_text": "Question: {{question}}\nAnswer:",
    "doc_to_target": "{{answer}}",
    "repeats": 3,
    "generation_kwargs": {
        "until": ["\n"],
        "do_sample": True,
        "temperature": 1.0,
        "max_gen_toks": 12,
    },
    "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    "metadata": {"version": 1.0},
}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = folder / "facts.jsonl"
        rows.write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS))
        task = TASK | {"dataset_kwargs": {"data_files": {"test": str(rows)}}}
        (folder / "facts.yaml").write_text(json.dumps(task))
        command = [sys.executable, "-m", "lm_eval", "--model", "hf", "--device", "cpu"]
        command += ["--model_args", f"pretrained={MODEL},dtype=float32", "--tasks", "facts"]
        command += ["--include_path", name, "--log_samples", "--output_path", str(folder / "out")]
        subprocess.run(command, check=True)
        (samples,) = folder.glob("out/*/samples_facts_*.jsonl")
        (FOLDER / "samples_facts.jsonl").write_bytes(samples.read_bytes())


if __name__ == "__main__":
    main()
