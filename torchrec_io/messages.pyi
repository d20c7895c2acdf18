from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar, final

from google.protobuf.internal.containers import (
    MessageMap,
    RepeatedCompositeFieldContainer,
    RepeatedScalarFieldContainer,
)
from google.protobuf.message import Message

# A message inside another may be a dict of its fields; in a map, only since protobuf 6.
_M = TypeVar("_M", bound=Message)
_Given: TypeAlias = _M | Mapping[str, Any] | None

@final
class BytesList(Message):
    @property
    def value(self) -> RepeatedScalarFieldContainer[bytes]: ...
    def __init__(self, *, value: Iterable[bytes] | None = ...) -> None: ...

@final
class FloatList(Message):
    @property
    def value(self) -> RepeatedScalarFieldContainer[float]: ...
    def __init__(self, *, value: Iterable[float] | None = ...) -> None: ...

@final
class Int64List(Message):
    @property
    def value(self) -> RepeatedScalarFieldContainer[int]: ...
    def __init__(self, *, value: Iterable[int] | None = ...) -> None: ...

@final
class Feature(Message):
    @property
    def bytes_list(self) -> BytesList: ...
    @property
    def float_list(self) -> FloatList: ...
    @property
    def int64_list(self) -> Int64List: ...
    def __init__(
        self,
        *,
        bytes_list: _Given[BytesList] = ...,
        float_list: _Given[FloatList] = ...,
        int64_list: _Given[Int64List] = ...,
    ) -> None: ...
    def WhichOneof(  # noqa: N802  # protobuf's name
        self, oneof_group: str | bytes
    ) -> Literal["bytes_list", "float_list", "int64_list"] | None: ...

@final
class Features(Message):
    @property
    def feature(self) -> MessageMap[str, Feature]: ...
    def __init__(self, *, feature: Mapping[str, Feature] | None = ...) -> None: ...

@final
class FeatureList(Message):
    @property
    def feature(self) -> RepeatedCompositeFieldContainer[Feature]: ...
    def __init__(self, *, feature: Iterable[Feature | Mapping[str, Any]] | None = ...) -> None: ...

@final
class FeatureLists(Message):
    @property
    def feature_list(self) -> MessageMap[str, FeatureList]: ...
    def __init__(self, *, feature_list: Mapping[str, FeatureList] | None = ...) -> None: ...

@final
class Example(Message):
    @property
    def features(self) -> Features: ...
    def __init__(self, *, features: _Given[Features] = ...) -> None: ...

@final
class SequenceExample(Message):
    @property
    def context(self) -> Features: ...
    @property
    def feature_lists(self) -> FeatureLists: ...
    def __init__(
        self, *, context: _Given[Features] = ..., feature_lists: _Given[FeatureLists] = ...
    ) -> None: ...
