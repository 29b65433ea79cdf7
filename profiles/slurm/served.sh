#!/bin/bash
#SBATCH --gpus=4 --cpus-per-task=8 --mem=128G --time=24:00:00
# vLLM on one node and, beside it, the study that asks it; the study names the server (source: server:NAME):
#
#   sbatch profiles/slurm/served.sh STUDY NAME meta-llama/Llama-3.3-70B-Instruct
#
# Submitted again, it goes on after the last finished batch. It ran as a job without a card, never on one.
set -euo pipefail
study=$1
name=$2
model=$3
port=$((20000 + SLURM_JOB_ID % 10000))
log=vllm-$SLURM_JOB_ID.log

# other people's jobs on this node cannot ask the server without the key
BEAMUQ_API_KEY=$(openssl rand -hex 16)
VLLM_API_KEY=$BEAMUQ_API_KEY
export BEAMUQ_API_KEY VLLM_API_KEY

vllm serve "$model" --host 127.0.0.1 --port "$port" --tensor-parallel-size "$SLURM_GPUS" \
  --max-logprobs -1 --logprobs-mode raw_logprobs > "$log" 2>&1 &
server=$!
address=$(mktemp --suffix=.yaml)
trap 'rm "$address"; kill "$server"' EXIT
echo "servers: {$name: http://127.0.0.1:$port/v1}" > "$address"

until curl --silent --fail --output /dev/null "http://127.0.0.1:$port/health"; do
  kill -0 "$server" || { tail "$log"; exit 1; }
  sleep 10
done

# in a file of its own: a command line goes into Snakemake's log
snakemake --cores "$SLURM_CPUS_PER_TASK" --configfile config.yaml "$address" --config "study=$study" device=cpu
