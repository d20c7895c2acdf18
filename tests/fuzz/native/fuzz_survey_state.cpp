// Restores surveys from any bytes, which are refused or are the state of the restored survey, too.
// A restored survey can be merged with others.
#include <memory>
#include <string>
#include <vector>

#include "example/survey.h"
#include "example/survey_state.h"
#include "require.h"

namespace tio::fuzz {
namespace {

std::shared_ptr<const CharacterSet> no_characters() {
  static const auto set =
      std::make_shared<const CharacterSet>(std::vector<std::byte>(CharacterSet::kBytes));
  return set;
}

std::size_t count_features(const Survey& survey) {
  return survey.context().all().size() + survey.lists().all().size();
}

void run(Bytes state) {
  Survey survey(no_characters(), true);
  if (!restore_survey(state, survey)) return;
  const std::string again = survey_state(survey);
  require(again == std::string(reinterpret_cast<const char*>(state.data()), state.size()),
          "another state after it was restored");
  Survey merged(no_characters(), true);
  require(merged.merge(survey) && merged.merge(survey), "too many features");
  require(count_features(merged) <= count_features(survey), "features were added by a merge");
}

}  // namespace
}  // namespace tio::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tio::fuzz::run(std::as_bytes(std::span(data, size)));
  return 0;
}
