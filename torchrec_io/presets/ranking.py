"""Lists to be ranked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..checks import is_integer
from ..errors import SchemaError
from ..ranking.schema import ExampleListSchema
from ..schema.dtypes import DType
from ..schema.specs import FixedLenFeature

NUMBERED = "custom_features_{}"


def ranking_elwc(
    examples: Mapping[str, Any] | int,
    context: Mapping[str, Any] | None = None,
    *,
    label: str | None = "relevance",
    label_dtype: DType = "int64",
) -> ExampleListSchema:
    """Lists of documents for queries as TF-Ranking has them: ELWC records.

    The label is a Ragged of one number for each document. See :class:`ExampleListSchema` for what
    comes out, and for TF-Ranking's mask.

    Source: tensorflow/ranking, ``tensorflow_ranking/python/data.py`` (``parse_from_example_list``);
    for numbered features its ``examples/data/*_numerical_elwc.tfrecord`` and
    ``examples/keras/keras_dnn_tfrecord.py``, whose label is "utility".

    Args:
        examples: Spec of each feature of a document; or how many ``custom_features_1``, ``_2`` and
            so on there are, each one float32, 0 where it is not stored.
        context: Spec of each feature of the query.
        label: The feature of a document that says how relevant it is; None for none.
        label_dtype: Of the label: "int64" or "float32", as it is stored.

    Raises:
        SchemaError: as :class:`ExampleListSchema`; examples have the label already.
        ValueError: examples are neither a dict nor a whole number from 1.
    """
    if not isinstance(examples, Mapping):
        if not is_integer(examples) or examples < 1:
            raise ValueError(f"examples must be a dict or a whole number from 1, not {examples!r}")
        number = FixedLenFeature([], "float32", default_value=0.0)
        examples = {NUMBERED.format(i): number for i in range(1, examples + 1)}
    features = dict(examples)
    if label is not None:
        if label in features:
            reason = "it is given twice: leave it out of examples, or give label=None"
            raise SchemaError(reason, feature=label)
        features[label] = FixedLenFeature([], label_dtype)
    return ExampleListSchema(context, features)
