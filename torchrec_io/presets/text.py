"""Texts."""

from __future__ import annotations

from ..schema.schema import Schema
from ..schema.specs import FixedLenFeature


def bert_pretraining(max_seq_length: int = 128, max_predictions_per_seq: int = 20) -> Schema:
    """Masked words and next sentences, as BERT's ``create_pretraining_data.py`` writes them.

    All are int64 but for ``masked_lm_weights``, float32: tokens ``[B, max_seq_length]``, what is
    masked ``[B, max_predictions_per_seq]``, ``next_sentence_labels`` ``[B, 1]``.

    Source: google-research/bert, ``run_pretraining.py`` (``input_fn_builder``). The defaults are
    those of its flags.

    Args:
        max_seq_length: Tokens of each record, padded ones included.
        max_predictions_per_seq: Masked tokens of each record, padded ones included.
    """
    tokens = FixedLenFeature([max_seq_length], "int64")
    masked = FixedLenFeature([max_predictions_per_seq], "int64")
    return Schema(
        {
            "input_ids": tokens,
            "input_mask": tokens,
            "segment_ids": tokens,
            "masked_lm_positions": masked,
            "masked_lm_ids": masked,
            "masked_lm_weights": FixedLenFeature([max_predictions_per_seq], "float32"),
            "next_sentence_labels": FixedLenFeature([1], "int64"),
        }
    )
