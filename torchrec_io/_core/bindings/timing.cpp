// Steps of loading, and stopwatches that add their time to numbers in shared memory.
#include <atomic>
#include <utility>

#include "bindings/arrays.h"
#include "timing/steps.h"

namespace tio {
namespace {

using CounterArray = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::span<std::int64_t, kCounters> counters_of(const CounterArray& numbers) {
  if (numbers.size() < kCounters) throw nb::value_error("there are fewer numbers than counters");
  if (reinterpret_cast<std::uintptr_t>(numbers.data()) %
      std::atomic_ref<std::int64_t>::required_alignment) {
    throw nb::value_error("numbers must be aligned to their size");
  }
  return std::span<std::int64_t, kCounters>(numbers.data(), kCounters);
}

// A stopwatch whose times are added to counters.
struct Meter {
  Stopwatch stopwatch;
  CounterArray numbers;
  bool counts_waiting;
  bool counts_pauses;
  bool has_started = false;
};

void init_meter(Meter* self, CounterArray numbers, bool counts_waiting, bool counts_pauses) {
  counters_of(numbers);
  new (self) Meter{Stopwatch(), std::move(numbers), counts_waiting, counts_pauses};
}

void stop_meter(Meter& self, std::int64_t records, std::int64_t bytes, std::int64_t batches) {
  Counts counts = self.stopwatch.stop();
  self.has_started = false;
  counts[static_cast<std::size_t>(Counter::records)] = records;
  counts[static_cast<std::size_t>(Counter::bytes)] = bytes;
  counts[static_cast<std::size_t>(Counter::batches)] = batches;
  if (!self.counts_waiting) counts[static_cast<std::size_t>(Counter::waiting_for_data)] = 0;
  if (!self.counts_pauses) counts[static_cast<std::size_t>(Counter::waiting_for_consumer)] = 0;
  add_counts(counters_of(self.numbers), counts);
}

// A step that Python code does in a `with` block.
struct PythonStep {
  Counter step;
};

}  // namespace

void bind_timing(nb::module_& m) {
  nb::enum_<Counter>(m, "Counter", "Number that is counted while data is loaded.")
      .value("records", Counter::records)
      .value("bytes", Counter::bytes)
      .value("batches", Counter::batches)
      .value("waiting_for_data", Counter::waiting_for_data)
      .value("waiting_for_consumer", Counter::waiting_for_consumer)
      .value("reading", Counter::reading)
      .value("checking", Counter::checking)
      .value("parsing", Counter::parsing)
      .value("decoding", Counter::decoding)
      .value("transform", Counter::transform)
      .value("copying", Counter::copying);

  nb::class_<PythonStep>(m, "Step",
                         "A step of loading: the time of a `with` block counts for it.\n\n"
                         "A step may contain others, whose time does not count for it.")
      .def(nb::init<Counter>(), "step"_a)
      .def("__enter__", [](const PythonStep& self) { enter_step(self.step); })
      .def(
          "__exit__",
          [](const PythonStep&, const nb::object&, const nb::object&, const nb::object&) {
            leave_step();
          },
          "kind"_a.none(), "error"_a.none(), "traceback"_a.none());

  nb::class_<Meter>(m, "Meter",
                    "Measures the steps of the thread that starts it, and adds to counters.\n\n"
                    "Additions are atomic between processes.")
      .def("__init__", &init_meter, "numbers"_a, "counts_waiting"_a, "counts_pauses"_a,
           "Args:\n"
           "    numbers: int64 [n] in shared memory, one for each Counter.\n"
           "    counts_waiting: Whether the time from start to stop is that of waiting_for_data.\n"
           "    counts_pauses: Whether the time from stop to start is that of\n"
           "        waiting_for_consumer.")
      .def_static("is_running", &Stopwatch::is_running,
                  "Return whether a meter runs in this thread.")
      .def(
          "start",
          [](Meter& self) {
            self.stopwatch.start();
            self.has_started = true;
          },
          "Start, in this thread.")
      .def_ro("has_started", &Meter::has_started, "Whether the meter was started and not stopped.")
      .def("stop", &stop_meter, "records"_a = 0, "bytes"_a = 0, "batches"_a = 0,
           "Stop, in the same thread, and add the times and other numbers to the counters.");

  m.def("add_time", &add_time, "step"_a, "nanoseconds"_a,
        "Count time of other threads for a step of this thread.");
  m.def(
      "add_records",
      [](const CounterArray& numbers, std::int64_t records) {
        add_counts(counters_of(numbers), Counts{records});
      },
      "numbers"_a, "records"_a, "Add to the number of records.");
}

}  // namespace tio
