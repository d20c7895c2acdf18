#include "threads/run_each.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace tio {
namespace {

// The items of one call.
class SharedWork {
 public:
  SharedWork(std::size_t count, std::size_t helpers, const std::function<void(std::size_t)>& work)
      : helpers_left_(helpers), count_(count), work_(work) {}

  // Works on items until none is left.
  void serve() noexcept {
    for (std::size_t item = next_++; item < count_; item = next_++) {
      try {
        work_(item);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
        next_ = count_;
      }
    }
  }

  // Both are called with the lock of the pool.
  bool wants_helper() const { return helpers_left_ > 0 && next_ < count_; }
  void add_helper() {
    --helpers_left_;
    ++helping_;
  }

  void end_helper(std::chrono::nanoseconds took) {
    // Notified with the lock: the work may be gone as soon as its caller can go on.
    const std::lock_guard lock(mutex_);
    helped_ += took;
    if (--helping_ == 0) ended_.notify_all();
  }
  // Waits for the helpers, of which no more may be added, and returns the time that they took.
  // Throws what was thrown.
  std::chrono::nanoseconds finish() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return helping_ == 0; });
    if (error_) std::rethrow_exception(error_);
    return helped_;
  }

 private:
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::size_t> helping_ = 0;
  std::size_t helpers_left_;
  const std::size_t count_;
  const std::function<void(std::size_t)>& work_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::exception_ptr error_;
  std::chrono::nanoseconds helped_{0};
};

class ThreadPool {
 public:
  // Offers work to threads, of which there are at least as many as it wants if the system has them.
  void offer(SharedWork* work, std::size_t helpers) {
    {
      const std::lock_guard lock(mutex_);
      offered_.push_back(work);
      while (threads_ < helpers) {
        try {
          std::thread(&ThreadPool::run, this).detach();
        } catch (const std::system_error&) {
          break;  // the caller does without
        }
        ++threads_;
      }
    }
    for (std::size_t i = 0; i < helpers; ++i) has_work_.notify_one();
  }

  void withdraw(SharedWork* work) {
    const std::lock_guard lock(mutex_);
    std::erase(offered_, work);
  }

 private:
  [[noreturn]] void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      const auto found =
          std::ranges::find_if(offered_, [](const auto* work) { return work->wants_helper(); });
      if (found == offered_.end()) {
        has_work_.wait(lock);
        continue;
      }
      SharedWork* const work = *found;
      work->add_helper();
      lock.unlock();
      const auto begin = std::chrono::steady_clock::now();
      work->serve();
      work->end_helper(std::chrono::steady_clock::now() - begin);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable has_work_;
  std::deque<SharedWork*> offered_;  // oldest first
  std::size_t threads_ = 0;
};

std::atomic<ThreadPool*> current_pool = nullptr;

// Returns the pool of this process. It is never destroyed, because its threads never end.
ThreadPool& thread_pool() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { current_pool = nullptr; });
  static_cast<void>(registered);
  ThreadPool* pool = current_pool;
  if (pool != nullptr) return *pool;
  auto made = std::make_unique<ThreadPool>();
  if (current_pool.compare_exchange_strong(pool, made.get())) pool = made.release();
  return *pool;
}

}  // namespace

std::chrono::nanoseconds run_each(std::size_t count, std::size_t threads,
                                  const std::function<void(std::size_t item)>& work) {
  const std::size_t helpers = std::min(threads, count) - (count > 0 && threads > 0 ? 1 : 0);
  SharedWork shared(count, helpers, work);
  if (helpers == 0) {
    shared.serve();
    return shared.finish();
  }
  ThreadPool& pool = thread_pool();
  pool.offer(&shared, helpers);
  shared.serve();
  pool.withdraw(&shared);
  return shared.finish();
}

}  // namespace tio
