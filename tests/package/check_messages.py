"""Run by run.sh with each release line of protobuf: ``check_messages.py VERSION upb|python``.

Nothing but the installed wheel, protobuf and Python itself is on the path.
"""

import copy
import pickle
import sys

import google.protobuf
from google.protobuf.internal import api_implementation

import torchrec_io as tio


def main() -> None:
    """Checks that the messages are made, hold values, and travel."""
    assert [google.protobuf.__version__, api_implementation.Type()] == sys.argv[1:]
    messages = tio.messages
    context = messages.Features(feature={"a": messages.Feature(bytes_list={"value": [b"\xff"]})})
    message = tio.SequenceExample(context=context)
    message.feature_lists.feature_list["b"].feature.add().float_list.value.extend([0.5, -1.0])
    message.feature_lists.feature_list["b"].feature.add().int64_list.value.append(-(2**63))

    record = message.SerializeToString()
    assert tio.SequenceExample.FromString(record) == message
    assert tio.Example.FromString(record).features == context
    assert copy.deepcopy(message) == copy.copy(message) == message
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(message, protocol))
        assert type(again) is tio.SequenceExample
        assert again == message
    assert message.context.feature["a"].WhichOneof("kind") == "bytes_list"
    assert messages.Int64List.FromString(b"\x08\x01\x0a\x02\x02\x03").value == [1, 2, 3]
    print(f"the messages are good with protobuf {' '.join(sys.argv[1:])}")


if __name__ == "__main__":
    main()
