// Encodes messages of any content. The bytes must be those of protobuf's deterministic serializer,
// and protobuf must read them back.
//
// Input: the parts that are present, then entries of both, each a key and Features; see Maker.
#include <fuzzer/FuzzedDataProvider.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <bit>
#include <deque>
#include <set>
#include <string>

#include "example.pb.h"
#include "example/encoder.h"
#include "require.h"

namespace tio::fuzz {
namespace {

using torchrec_io::Feature;
using torchrec_io::SequenceExample;

// Makes a message, and the protobuf message with the same values.
class Maker {
 public:
  explicit Maker(FuzzedDataProvider& input) : input_(input) {
    message.context.is_present = input_.ConsumeBool();
    message.sequence.is_present = input_.ConsumeBool();
    while (input_.remaining_bytes() > 0) add_entry();
    if (message.context.is_present) reference.mutable_context();
    if (message.sequence.is_present) reference.mutable_feature_lists();
  }

  Message message;
  SequenceExample reference;
  bool twice = false;  // a part has a key twice

 private:
  void add_entry() {
    const bool steps = input_.ConsumeBool();
    MessagePart& part = steps ? message.sequence : message.context;
    const std::string& key = keep(make_key());
    MapEntry entry{std::as_bytes(std::span(key)), message.features.size(), 0};
    twice |= !keys_[steps].insert(key).second;
    if (steps) {
      auto& list = (*reference.mutable_feature_lists()->mutable_feature_list())[key];
      const auto count = input_.ConsumeIntegralInRange<std::size_t>(0, 5);
      for (std::size_t i = 0; i < count; ++i) add_feature(*list.add_feature());
    } else {
      add_feature((*reference.mutable_context()->mutable_feature())[key]);
    }
    entry.end = message.features.size();
    part.entries.push_back(entry);
    // Entries of a part that is not present are not written.
    if (!message.context.is_present) reference.clear_context();
    if (!message.sequence.is_present) reference.clear_feature_lists();
  }

  // UTF-8 of one to four bytes a character, and of all lengths.
  std::string make_key() {
    std::string key;
    const auto size = input_.ConsumeIntegralInRange<std::size_t>(0, 20);
    while (key.size() < size && input_.remaining_bytes() > 0) {
      const auto byte = input_.ConsumeIntegral<std::uint8_t>();
      const auto low = static_cast<char>(0x80 | (byte & 0x3f));
      if (byte < 0xc0) {
        key += static_cast<char>(byte & 0x7f);
      } else if (byte < 0xe0) {
        key += {static_cast<char>(0xc2 + (byte & 3)), low};
      } else if (byte < 0xf0) {
        key += {'\xe2', '\x80', low};
      } else {
        key += {'\xf0', '\x9f', '\x98', low};
      }
    }
    return key;
  }

  void add_feature(Feature& to) {
    ValueRun run;
    run.kind = input_.PickValueInArray({Kind::none, Kind::ints, Kind::floats, Kind::bytes});
    const auto count = input_.ConsumeIntegralInRange<std::size_t>(0, 40);
    switch (run.kind) {
      case Kind::none: break;
      case Kind::ints: add_ints(run, count, *to.mutable_int64_list()); break;
      case Kind::floats: add_floats(run, count, *to.mutable_float_list()); break;
      case Kind::bytes: add_bytes(run, count, *to.mutable_bytes_list()); break;
    }
    message.features.push_back(run);
  }

  void add_ints(ValueRun& run, std::size_t count, torchrec_io::Int64List& to) {
    run.begin = message.ints.size();
    for (std::size_t i = 0; i < count; ++i) {
      const auto shift = input_.ConsumeIntegralInRange<int>(0, 63);
      const auto bits = input_.ConsumeIntegral<std::uint64_t>() >> shift;
      message.ints.push_back(static_cast<std::int64_t>(input_.ConsumeBool() ? ~bits : bits));
      to.add_value(message.ints.back());
    }
    run.end = message.ints.size();
  }

  void add_floats(ValueRun& run, std::size_t count, torchrec_io::FloatList& to) {
    run.begin = message.floats.size();
    for (std::size_t i = 0; i < count; ++i) {
      message.floats.push_back(std::bit_cast<float>(input_.ConsumeIntegral<std::uint32_t>()));
      to.add_value(message.floats.back());
    }
    run.end = message.floats.size();
  }

  void add_bytes(ValueRun& run, std::size_t count, torchrec_io::BytesList& to) {
    run.begin = message.bytes.size();
    for (std::size_t i = 0; i < count % 8; ++i) {
      // Long values need no input bytes.
      const auto more = input_.ConsumeIntegralInRange<std::size_t>(0, 150);
      const std::string& value =
          keep(input_.ConsumeRandomLengthString(20) + std::string(more * more, 'x'));
      message.bytes.push_back(std::as_bytes(std::span(value)));
      to.add_value(value);
    }
    run.end = message.bytes.size();
  }

  const std::string& keep(std::string text) { return kept_.emplace_back(std::move(text)); }

  FuzzedDataProvider& input_;
  std::deque<std::string> kept_;  // memory of the views in the message
  std::set<std::string> keys_[2];
};

std::string serialized(const SequenceExample& message) {
  std::string out;
  {
    google::protobuf::io::StringOutputStream stream(&out);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    require(message.SerializeToCodedStream(&coded), "protobuf cannot serialize the values");
  }
  return out;
}

void run(FuzzedDataProvider& input) {
  Maker made(input);
  MessageEncoder encoder;
  const bool twice = encoder.sort(made.message).has_value();
  require(twice == made.twice, "a key that is there twice, not found or made up");
  if (twice) return;
  const auto size = encoder.measure(made.message);
  require(size.has_value(), "a small message refused");
  std::vector<std::byte> memory(*size);
  encoder.write(made.message, memory);
  const std::string bytes(reinterpret_cast<const char*>(memory.data()), memory.size());
  require(bytes == serialized(made.reference), "other bytes than protobuf's");
  SequenceExample read;
  require(read.ParseFromString(bytes), "protobuf cannot read the message");
  require(serialized(read) == bytes, "protobuf reads another message");
}

}  // namespace
}  // namespace tio::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  tio::fuzz::run(input);
  return 0;
}
