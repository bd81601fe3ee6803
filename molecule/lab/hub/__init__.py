"""A local Hugging Face Hub: as much of the Hub's HTTP API as the real client needs to look a model up and download it.

    python3 -m hub --root DIR --port 8080

The lab has no way to the internet, and the product is to use the real ``huggingface_hub`` client with nothing changed
but ``HF_ENDPOINT``. The standard library is enough, so it runs on whatever Python a machine has.
"""
