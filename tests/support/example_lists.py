"""The message ``ExampleListWithContext``, as a protobuf class."""

from __future__ import annotations

from tests.support.messages import Example, make_messages

_NAME = Example.DESCRIPTOR.full_name
# As in tensorflow_serving/apis/input.proto.
_FIELDS = {"examples 1": f"repeated {_NAME}", "context 2": _NAME}
ExampleListWithContext = make_messages(
    "torchrec_io.tests", {"ExampleListWithContext": _FIELDS}, Example.DESCRIPTOR.file.pool
)["ExampleListWithContext"]
