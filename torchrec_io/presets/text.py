"""Preset of text datasets."""

from __future__ import annotations

from .._schema.schema import Schema
from .._schema.specs import FixedLenFeature


def bert_pretraining(max_seq_length: int = 128, max_predictions_per_seq: int = 20) -> Schema:
    """Return the schema of the records of BERT's ``create_pretraining_data.py``.

    The records are for masked words and next sentences. Features of tokens are
    ``[B, max_seq_length]``, features of masked tokens are ``[B, max_predictions_per_seq]``, and
    ``next_sentence_labels`` is ``[B, 1]``. ``masked_lm_weights`` is float32; all others are int64.

    Source: google-research/bert, ``run_pretraining.py`` (``input_fn_builder``). The defaults are
    those of its flags.

    Args:
        max_seq_length: Number of tokens of each record, including padding. Default: 128.
        max_predictions_per_seq: Number of masked tokens of each record, including padding.
            Default: 20.
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
