#!/bin/bash
# start the chat model; stop it with: docker stop vllm_node
set -e
cd "$(dirname "$0")"
source .env
docker run -d --name vllm_node --gpus all --network host --ipc host \
    -v "$HF_HOME:/root/.cache/huggingface" vllm-node:latest \
    vllm serve "$MODEL" --port 8000 --gpu-memory-utilization 0.82
