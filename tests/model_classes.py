"""Tiny random models of many classes of transformers, for the census of which path decodes which class.

Every scale, cap, sink, window and chunk that a class's config has is set away from the value that does nothing, and the
weights are large enough that logits spread: a model whose distribution is flat agrees with anything.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedModel

VOCABULARY, WINDOW, CONTEXT = 96, 8, 512
SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "tie_word_embeddings": False,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 1,
}
SLIDING: dict[str, Any] = {
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
}
LINEAR = {"layer_types": ["linear_attention", "full_attention", "linear_attention", "full_attention"]}
GATED = {
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "head_dim": 16,
}
EXPERTS: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
LOCAL_EXPERTS: dict[str, Any] = {"num_local_experts": 4, "num_experts_per_tok": 2}
GRANITE: dict[str, Any] = {
    "logits_scaling": 3.0,
    "embedding_multiplier": 2.0,
    "residual_multiplier": 0.7,
    "attention_multiplier": 0.3,
}
LATENT: dict[str, Any] = {
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 6,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "first_k_dense_replace": 1,
    "num_key_value_heads": 4,
    "routed_scaling_factor": 1.5,
    "n_group": 2,
    "topk_group": 1,
}
GPT2: dict[str, Any] = {"n_positions": CONTEXT, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_inner": 48}
MAMBA2: dict[str, Any] = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_state": 8,
    "mamba_d_conv": 4,
    "mamba_chunk_size": 16,
    "mamba_n_groups": 2,
}
HEADED_MAMBA: dict[str, Any] = {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 16}
MAMBA: dict[str, Any] = {"state_size": 8, "time_step_rank": 4}

# Model types, with a word behind a comma for another kind of the same, and what their configs set beside SHAPE.
CLASSES: dict[str, dict[str, Any]] = {
    "llama": {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}},
    "qwen2": SLIDING | {"use_sliding_window": True, "max_window_layers": 1},
    "qwen3": SLIDING | {"use_sliding_window": True, "head_dim": 8},
    "qwen2_moe": EXPERTS
    | SLIDING
    | {"use_sliding_window": True, "norm_topk_prob": True, "shared_expert_intermediate_size": 24},
    "qwen3_moe": EXPERTS
    | {"sliding_window": WINDOW, "use_sliding_window": True}
    | {"head_dim": 8, "norm_topk_prob": True, "num_local_experts": 4},
    "mistral": {"sliding_window": WINDOW, "head_dim": 8},
    "ministral": {"sliding_window": WINDOW, "head_dim": 8, "layer_types": SLIDING["layer_types"]},
    "ministral3": {
        "head_dim": 8,
        "sliding_window": WINDOW,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "original_max_position_embeddings": 16,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "llama_4_scaling_beta": 0.3,
        },
    },
    "mixtral": LOCAL_EXPERTS | {"sliding_window": WINDOW, "head_dim": 8},
    "phi": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}},
    "phi3, longrope": {
        "rope_parameters": {
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "short_factor": [1.0, 1.1, 1.2, 1.3],
            "long_factor": [1.0, 2.0, 3.0, 4.0],
            "original_max_position_embeddings": 64,
        },
        "original_max_position_embeddings": 64,
        "sliding_window": WINDOW,
    },
    "phi3": {"sliding_window": WINDOW, "original_max_position_embeddings": CONTEXT},
    "gemma": {"head_dim": 8},
    "gemma2": SLIDING
    | {"head_dim": 8, "query_pre_attn_scalar": 5, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 4.0},
    "gemma3_text": SLIDING | {"head_dim": 8, "query_pre_attn_scalar": 5, "final_logit_softcapping": 4.0},
    "gemma3": {
        "text_config": SHAPE | SLIDING | {"head_dim": 8, "query_pre_attn_scalar": 5, "final_logit_softcapping": 4.0},
        "vision_config": SHAPE | {"num_hidden_layers": 1, "image_size": 28, "patch_size": 14},
        "mm_tokens_per_image": 4,
    },
    "olmo": {"clip_qkv": 1.5},
    "olmo2": {},
    "olmo3": SLIDING,
    "olmoe": EXPERTS | {"clip_qkv": 1.5, "norm_topk_prob": True},
    "smollm3": SLIDING | {"use_sliding_window": True, "no_rope_layers": [1, 1, 1, 0]},
    "granite": GRANITE,
    "granitemoe": GRANITE | LOCAL_EXPERTS,
    "granitemoeshared": GRANITE | LOCAL_EXPERTS | {"shared_intermediate_size": 24},
    "granitemoehybrid": GRANITE
    | LOCAL_EXPERTS
    | MAMBA2
    | LINEAR
    | {"shared_intermediate_size": 24, "position_embedding_type": "rope"},
    "starcoder2": {"sliding_window": WINDOW},
    "gpt_neox": {},
    "gpt2": GPT2 | {"scale_attn_by_inverse_layer_idx": True, "scale_attn_weights": False},
    "gpt_bigcode": GPT2 | {"scale_attn_weights": False},
    "gpt_neo": {
        "num_layers": 4,
        "num_heads": 4,
        "attention_types": [[["global", "local"], 2]],
        "window_size": WINDOW,
    },
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 16},
    "biogpt": {"scale_embedding": False},
    "xglm": {"d_model": 32, "ffn_dim": 48, "num_layers": 3, "attention_heads": 4, "scale_embedding": False},
    "glm": {"head_dim": 8},
    "glm4": {"head_dim": 8},
    "glm4_moe": EXPERTS
    | {"n_routed_experts": 4, "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.5}
    | {"head_dim": 8, "use_qk_norm": True},
    "exaone4": SLIDING,
    "helium": {"head_dim": 8},
    "ernie4_5": {"head_dim": 8, "use_bias": True},
    "ernie4_5_moe": {"moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 24, "moe_num_shared_experts": 1},
    "dots1": SLIDING
    | EXPERTS
    | {"routed_scaling_factor": 1.5}
    | {"head_dim": 8, "n_routed_experts": 4, "n_group": 2, "topk_group": 1, "n_shared_experts": 1},
    "seed_oss": {"head_dim": 8},
    "apertus": {},
    "hunyuan_v1_dense": {"head_dim": 8},
    "arcee": {"head_dim": 8},
    "persimmon": {},
    "bitnet": {},
    "nanochat": {"final_logit_softcapping": 4.0},
    "gpt_oss": SLIDING | LOCAL_EXPERTS | {"head_dim": 8, "swiglu_alpha": 1.2, "swiglu_limit": 0.5},
    "cohere": {"logit_scale": 2.0, "use_qk_norm": True},
    "cohere2": SLIDING | {"logit_scale": 2.0, "head_dim": 8},
    "stablelm": {"use_parallel_residual": True, "qk_layernorm": True, "use_qkv_bias": True},
    "nemotron": {"head_dim": 8},
    "deepseek_v2": LATENT | {"topk_method": "group_limited_greedy"},
    "deepseek_v3": LATENT | {"n_shared_experts": 1},
    "llama4_text": LOCAL_EXPERTS
    | {
        "head_dim": 8,
        "intermediate_size_mlp": 48,
        "attention_chunk_size": WINDOW,
        "attn_temperature_tuning": False,
        "interleave_moe_layer_step": 2,
    },
    "llama4_text, scaled by position": LOCAL_EXPERTS
    | {
        "head_dim": 8,
        "intermediate_size_mlp": 48,
        "attention_chunk_size": WINDOW,
        "floor_scale": 4,
        "attn_scale": 0.5,
        "interleave_moe_layer_step": 2,
    },
    "diffllama": {"head_dim": 8},
    "falcon": {
        "num_kv_heads": 2,
        "ffn_hidden_size": 48,
        "new_decoder_architecture": True,
        "alibi": False,
    },
    "falcon, alibi": {"alibi": True, "new_decoder_architecture": False, "multi_query": True},
    "gptj": GPT2 | {"rotary_dim": 4},
    "codegen": GPT2 | {"rotary_dim": 4},
    "bloom": {"n_layer": 3, "n_head": 4},
    "mpt": {"d_model": 32, "n_heads": 4, "n_layers": 3, "max_seq_len": CONTEXT, "expansion_ratio": 2},
    "qwen3_next": EXPERTS | GATED | LINEAR | {"shared_expert_intermediate_size": 24},
    "qwen3_5_text": GATED | LINEAR,
    "minimax": LOCAL_EXPERTS
    | LINEAR
    | {"head_dim": 8, "block_size": 16, "linear_attn_alpha_factor": 0.7, "linear_attn_beta_factor": 1.2}
    | {"full_attn_alpha_factor": 0.8, "full_attn_beta_factor": 1.3, "mlp_alpha_factor": 0.9, "mlp_beta_factor": 1.1},
    "jamba": EXPERTS
    | {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 8, "mamba_d_conv": 4, "mamba_dt_rank": 4},
    "falcon_h1": MAMBA2
    | {
        "mamba_d_ssm": 64,
        "lm_head_multiplier": 2.0,
        "key_multiplier": 0.7,
        "attention_in_multiplier": 0.9,
        "attention_out_multiplier": 0.8,
        "embedding_multiplier": 2.0,
        "mlp_multipliers": [0.8, 1.3],
        "ssm_in_multiplier": 1.2,
        "ssm_out_multiplier": 0.9,
        "ssm_multipliers": [0.9, 1.1, 0.8, 1.2, 1.0],
        "head_dim": 8,
    },
    "bamba": MAMBA2 | {"attn_layer_indices": [1, 3]},
    "zamba2": {
        "mamba_d_state": 8,
        "n_mamba_heads": 8,
        "chunk_size": 16,
        "num_mem_blocks": 1,
        "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"],
    },
    "mamba": MAMBA,
    "mamba2": HEADED_MAMBA,
    "mamba2, time_step_limit": HEADED_MAMBA | {"time_step_limit": (0.3, 0.6)},
    "falcon_mamba": MAMBA,
    "recurrent_gemma": {
        "lru_width": 32,
        "attention_window_size": WINDOW,
        "logits_soft_cap": 4.0,
        "head_dim": 8,
        "block_types": ["recurrent", "attention"],
    },
    "vaultgemma": SLIDING
    | {"head_dim": 8, "query_pre_attn_scalar": 5, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 4.0},
    "gemma3n_text": SLIDING
    | {"head_dim": 8, "num_kv_shared_layers": 2, "vocab_size_per_layer_input": VOCABULARY, "laurel_rank": 8}
    | {"hidden_size_per_layer_input": 8, "altup_correct_scale": False}
    | {"activation_sparsity_pattern": [0.5, 0.0, 0.5, 0.0], "final_logit_softcapping": 4.0},
    "gemma4_text": SLIDING
    | {"head_dim": 8, "num_kv_shared_layers": 2, "vocab_size_per_layer_input": VOCABULARY}
    | {"hidden_size_per_layer_input": 8, "final_logit_softcapping": 4.0, "per_layer_config": {}},
    "phimoe": LOCAL_EXPERTS | {"sliding_window": WINDOW},
    "minimax_m2": LOCAL_EXPERTS | {"head_dim": 8},
    "glm4_moe_lite": LATENT | {"n_shared_experts": 1, "mlp_layer_types": ["dense", "sparse", "dense", "sparse"]},
    "flex_olmo": EXPERTS,
    "qwen3_5_moe_text": EXPERTS | GATED | LINEAR | {"shared_expert_intermediate_size": 24},
    "openai-gpt": {"n_positions": CONTEXT, "n_embd": 32, "n_layer": 3, "n_head": 4},
    "rwkv": {"context_length": CONTEXT, "attention_hidden_size": 32},
    "lfm2_moe": EXPERTS
    | {"layer_types": ["conv", "full_attention", "conv", "full_attention"], "routed_scaling_factor": 1.5},
    "lfm2": {"layer_types": ["conv", "full_attention", "conv", "full_attention"], "block_auto_adjust_ff_dim": False},
}
_OWN_START = ("A_log", "D", "dt_bias", "dt_proj.bias", "slope_rate", "recurrent_param")


def model_type(kind: str) -> str:
    """The name under which transformers knows a key of `CLASSES`."""
    return kind.partition(",")[0]


def random_model(kind: str, *, seed: int = 0, **overrides: Any) -> PreTrainedModel:
    """A random model of ``kind`` (a key of `CLASSES`), in float32, whose logits spread."""
    torch.manual_seed(seed)
    config = CONFIG_MAPPING[model_type(kind)](**SHAPE | CLASSES[kind] | overrides)
    make: Any = AutoModelForCausalLM
    model: PreTrainedModel = make.from_config(config).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(_OWN_START):
                continue
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
            else:
                parameter.normal_(0.0, 0.3)
        if "logits_scaling" in CLASSES[kind]:  # it divides, and would leave little spread
            output: Any = model.get_output_embeddings()
            output.weight.mul_(3.0)
    return model
