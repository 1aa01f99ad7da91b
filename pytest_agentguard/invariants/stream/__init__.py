"""The model's answer: streams that are cut, stalled, withdrawn or broken, and what becomes of them."""
