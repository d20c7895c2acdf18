"""Preset of ranking datasets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._schema.dtypes import DType
from .._schema.specs import FixedLenFeature
from ..checks import is_integer
from ..errors import SchemaError
from ..ranking.schema import Schema

NUMBERED = "custom_features_{}"


def ranking_elwc(
    examples: Mapping[str, Any] | int,
    context: Mapping[str, Any] | None = None,
    *,
    label: str | None = "relevance",
    label_dtype: DType = "int64",
) -> Schema:
    """Return the schema of lists of documents for queries (ELWC records), as in TF-Ranking.

    The label is a Ragged with one number for each document. :class:`ranking.Schema` describes the
    other columns, and TF-Ranking's mask.

    Source: tensorflow/ranking, ``tensorflow_ranking/python/data.py`` (``parse_from_example_list``).
    Numbered features are those of its ``examples/data/*_numerical_elwc.tfrecord`` and
    ``examples/keras/keras_dnn_tfrecord.py``, where the label is "utility".

    Args:
        examples: Spec of each feature of a document; or the number of features
            ``custom_features_1``, ``custom_features_2`` and so on, which are float32 and 0 where
            they are missing.
        context: Spec of each feature of the query. Default: none.
        label: Name of the feature of a document with its relevance, or None for data without it.
            Default: "relevance".
        label_dtype: Stored dtype of the label, "int64" or "float32". Default: "int64".

    Raises:
        SchemaError: If ``examples`` contains the label, or if :class:`ranking.Schema` rejects the
            specs.
        ValueError: If ``examples`` is neither a dict nor a positive integer.
    """
    if not isinstance(examples, Mapping):
        if not is_integer(examples) or examples < 1:
            raise ValueError(f"examples must be a dict or a positive integer, got {examples!r}")
        number = FixedLenFeature([], "float32", default_value=0.0)
        examples = {NUMBERED.format(i): number for i in range(1, examples + 1)}
    features = dict(examples)
    if label is not None:
        if label in features:
            reason = "examples must not contain the label: leave it out, or pass label=None"
            raise SchemaError(reason, feature=label)
        features[label] = FixedLenFeature([], label_dtype)
    return Schema(context, features)
