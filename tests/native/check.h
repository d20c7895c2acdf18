// The test framework: CHECKs that report failures and continue, and the number of failures.
#pragma once

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace tio::test {

inline int failures = 0;

inline std::string escape(const std::string& bytes) {
  constexpr std::size_t kMost = 200;
  std::string text = "\"";
  for (const unsigned char byte : bytes.substr(0, kMost)) {
    char escaped[8];
    std::snprintf(escaped, sizeof(escaped), "\\x%02x", byte);
    text += byte >= 0x20 && byte < 0x7f ? std::string(1, static_cast<char>(byte)) : escaped;
  }
  return text + (bytes.size() > kMost ? "...\"" : "\"");
}

template <class T>
std::string describe(const T& value) {
  if constexpr (std::is_convertible_v<T, std::string>) {
    return escape(value);
  } else if constexpr (std::is_same_v<T, std::nullopt_t>) {
    return "nothing";
  } else if constexpr (requires { value.has_value(); }) {
    return value ? describe(*value) : "nothing";
  } else if constexpr (requires { value.begin(); }) {
    std::string text = "[";
    for (const auto& element : value) {
      if (text.size() > 400) return text + " ...]";
      text += (text.size() > 1 ? " " : "") + describe(element);
    }
    return text + "]";
  } else if constexpr (std::is_enum_v<T>) {
    return describe(static_cast<std::underlying_type_t<T>>(value));
  } else {
    std::ostringstream text;
    if constexpr (std::is_arithmetic_v<T>) {
      text << +value;  // a small integer is a number here, not a character
    } else {
      text << value;
    }
    return text.str();
  }
}

inline bool report(bool holds, const char* file, int line, const std::string& what) {
  constexpr int kMostPrinted = 30;
  if (holds) return true;
  if (++failures <= kMostPrinted) std::cerr << file << ":" << line << ": " << what << "\n";
  return false;
}

template <class A, class B>
bool check_equal(const A& a, const B& b, const char* file, int line, const char* what) {
  return a == b || report(false, file, line,
                          std::string(what) + ": " + describe(a) + " is not " + describe(b));
}

template <class A, class B, class Note>
bool check_equal(const A& a, const B& b, const char* file, int line, const char* what,
                 const Note& note) {
  return a == b || check_equal(a, b, file, line, (what + (" at " + describe(note))).c_str());
}

// Returns the exit status of main.
inline int finish() {
  if (failures != 0) std::cerr << failures << " checks failed\n";
  return failures == 0 ? 0 : 1;
}

}  // namespace tio::test

#define CHECK(condition) \
  ::tio::test::report(static_cast<bool>(condition), __FILE__, __LINE__, #condition)
#define CHECK_EQ(a, b) ::tio::test::check_equal(a, b, __FILE__, __LINE__, #a " == " #b)
// For loops: `note` identifies the iteration.
#define CHECK_EQ_IN(a, b, note) \
  ::tio::test::check_equal(a, b, __FILE__, __LINE__, #a " == " #b, note)
