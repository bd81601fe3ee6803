"""Makes the tiny Qwen3 that the lab's hub gives out; runs inside the engine image.

    python3 make_model.py ROOT ORG/NAME  ->  ROOT/ORG/NAME/<revision>/..., ROOT/ORG/NAME/main

The weights are built, not trained: token embeddings are rows of a Hadamard matrix, and each unit of the first MLP
turns one token into its successor. The model therefore says one known sentence, whatever it is asked. The units are
spread over all tensor-parallel ranks, so a rank that is missing from the all-reduce is heard at once: the sentence
breaks. All numbers are exact in bfloat16 and come from integers, so every machine makes the same bytes and with them
the same revision.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path

# These are in the image only, where mypy does not run.
import torch  # type: ignore[import-not-found]
from tokenizers import (  # type: ignore[import-not-found]
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    trainers,
)
from transformers import (  # type: ignore[import-not-found]
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

# Every word once: the model knows only which token follows which.
SENTENCE = "Hello, this is a tiny language model served by two emulated Sparks over one cable; both ranks took part."

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
# Known to the parsers that a recipe may name for the Qwen3 family.
MARKS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
SPECIAL = [PAD, START, END, *MARKS]
VOCABULARY = 512
HIDDEN = 512
INTERMEDIATE = 1536
LAYERS = 2
SHARD = "3MB"

CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)

CARD = """---
license: apache-2.0
library_name: transformers
pipeline_tag: text-generation
---
# tiny-qwen3

A Qwen3 of two layers that says one sentence. It exists to prove that tensor parallelism over two machines works.
"""


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE in which each word of the sentence is one token and any text can be encoded."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([SENTENCE] * 4 + ["system user assistant"] * 2, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        model_max_length=4096,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def successors(tokenizer: PreTrainedTokenizerFast) -> list[int]:
    """The token that follows each token: the sentence in its order, then its end; anything else begins it."""
    chain = tokenizer.encode(SENTENCE, add_special_tokens=False)
    if len(set(chain)) != len(chain):
        raise SystemExit(f"a token occurs twice in the sentence: {tokenizer.convert_ids_to_tokens(chain)}")
    follows = [chain[0]] * VOCABULARY
    for token, following in zip(chain, [*chain[1:], tokenizer.eos_token_id], strict=True):
        follows[token] = following
    return follows


def hadamard(size: int) -> torch.Tensor:
    """Rows of +1 and -1, each at a right angle to all others."""
    matrix = torch.ones(1, 1)
    while matrix.shape[0] < size:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix


def noise(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    """Multiples of 2**-10 up to 2**-5: exact in bfloat16, and the same on every processor."""
    return torch.randint(-32, 33, tuple(shape), generator=generator) / 1024


def make_model(follows: list[int]) -> Qwen3ForCausalLM:
    """Weights under which the sentence is the only likely continuation."""
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=INTERMEDIATE,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        pad_token_id=SPECIAL.index(PAD),
        bos_token_id=SPECIAL.index(PAD),
        eos_token_id=SPECIAL.index(END),
    )
    config.dtype = torch.bfloat16
    model = Qwen3ForCausalLM(config)
    generator = torch.Generator().manual_seed(10)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            weight.copy_(torch.ones(weight.shape) if "norm" in name else noise(weight.shape, generator) / 4)
        tokens = hadamard(HIDDEN)[:VOCABULARY]
        model.model.embed_tokens.weight.copy_(tokens)
        # 512 * 2**-4 = 32 above all others: sampling at any usual temperature says the sentence.
        model.lm_head.weight.copy_(tokens / 16)
        mlp = model.model.layers[0].mlp
        # One unit a token, dealt out so that consecutive token numbers lie on different tensor-parallel ranks.
        units = [(token * 257) % VOCABULARY * (INTERMEDIATE // VOCABULARY) for token in range(VOCABULARY)]
        for token, unit in enumerate(units):
            mlp.gate_proj.weight[unit] = tokens[token] / 128
            mlp.up_proj.weight[unit] = tokens[token] / 128
            mlp.down_proj.weight[:, unit] = tokens[follows[token]]
    return model.to(torch.bfloat16)


def revision_of(folder: Path) -> str:
    """A commit hash that depends on nothing but names and content."""
    total = hashlib.sha1(usedforsecurity=False)
    for path in sorted(folder.iterdir()):
        total.update(f"{path.name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def main() -> None:
    """Write the model under its revision, and the branch ``main`` that names it."""
    repository = Path(sys.argv[1]) / sys.argv[2]
    shutil.rmtree(repository, ignore_errors=True)
    folder = repository / "new"
    folder.mkdir(parents=True)
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(folder)
    model = make_model(successors(tokenizer))
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=True, temperature=0.7
    )
    model.save_pretrained(folder, max_shard_size=SHARD)
    (folder / "README.md").write_text(CARD)
    for path in folder.iterdir():
        path.chmod(0o644)
    revision = revision_of(folder)
    folder.rename(repository / revision)
    (repository / "main").write_text(revision + "\n")
    # The same behind a gate, for downloads with and without a token.
    gated = repository.with_name(repository.name + "-gated")
    shutil.rmtree(gated, ignore_errors=True)
    gated.mkdir()
    (gated / revision).symlink_to(Path("..") / repository.name / revision)
    (gated / "main").write_text(revision + "\n")
    (gated / "access.json").write_text(json.dumps({"gated": "manual", "granted": ["hf_lab_granted"]}) + "\n")
    print(revision)


if __name__ == "__main__":
    main()
