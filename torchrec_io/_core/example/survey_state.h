// Surveys as bytes, to send them to another process.
#pragma once

#include <string>

#include "example/survey.h"
#include "wire/bytes.h"

namespace tio {

// Returns the facts of a survey. The format is that of one version of the package.
std::string survey_state(const Survey& survey);

// Adds the facts of a survey to an empty one. Returns false if the bytes are not those of a survey,
// or if there are too many features.
bool restore_survey(Bytes state, Survey& empty);

}  // namespace tio
