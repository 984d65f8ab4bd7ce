// The answers of the control socket. See answer.h.
#include "control/answer.h"

#include <errno.h>
#include <string.h>

#include "base/error_text.h"
#include "base/version.h"
#include "control/settings.h"
#include "malloc/release_now.h"
#include "profile/stats_prometheus.h"
#include "report/profile_api.h"
#include "report/stats_collect.h"

namespace strata {
namespace {

const char* AnswerStats(StatsFormat format, TextSink& sink) {
  HeapStats stats;
  CollectStats(stats);
  switch (format) {
    case StatsFormat::kJson:
      WriteJson(stats, sink, WriteOccupancy);
      break;
    case StatsFormat::kText:
      WriteText(stats, sink);
      break;
    case StatsFormat::kPrometheus:
      WritePrometheus(stats, program_invocation_short_name, sink);
      break;
  }
  return nullptr;
}

const char* AnswerSet(const ControlRequest& request) {
  const int error = ApplySetting(request.name, request.value);
  if (error == 0) return nullptr;
  if (error == ENOENT) return "no such setting; `strata get PID` lists them";
  if (error == EINVAL) return "the value makes no sense; `strata get PID` says what it takes";
  return ErrorText(error);
}

void WriteSetting(const SettingRow& row, TextSink& sink) {
  sink.Text(row.name).Char('=');
  row.get(sink);
  sink.Char('\n');
}

const char* AnswerGet(const char* name, TextSink& sink) {
  if (*name != '\0') {
    const SettingRow* row = FindSetting(name);
    if (row == nullptr) return "no such setting; `strata get PID` lists them";
    WriteSetting(*row, sink);
    return nullptr;
  }
  size_t rows = 0;
  const SettingRow* table = SettingTable(&rows);
  for (size_t i = 0; i < rows; ++i) WriteSetting(table[i], sink);
  return nullptr;
}

const char* AnswerOptions(TextSink& sink) {
  size_t rows = 0;
  const SettingRow* table = SettingTable(&rows);
  for (size_t i = 0; i < rows; ++i) {
    sink.Text(table[i].name).Char('=');
    table[i].get(sink);
    sink.Char('\t').Text(table[i].takes).Char('\t').Text(table[i].help).Char('\n');
  }
  return nullptr;
}

}  // namespace

const char* ExplainProfileError(int error) {
  if (error == EINVAL) return "no such kind of profile";
  if (error == ENOTSUP) return "sampling is off: set sample to some bytes first, for example 2M";
  return ErrorText(error);
}

const char* WriteAnswer(const ControlRequest& request, int fd) {
  TextSink sink(fd);
  const char* error = nullptr;
  switch (request.verb) {
    case ControlVerb::kStats:
      error = AnswerStats(request.format, sink);
      break;
    case ControlVerb::kProfile:
      if (const int why = WriteProfile(request.name, fd)) return ExplainProfileError(why);
      break;
    case ControlVerb::kRelease:
      sink.Number(ReleaseBytes(request.bytes)).Char('\n');
      break;
    case ControlVerb::kSet:
      error = AnswerSet(request);
      break;
    case ControlVerb::kGet:
      error = AnswerGet(request.name, sink);
      break;
    case ControlVerb::kOptions:
      error = AnswerOptions(sink);
      break;
    case ControlVerb::kVersion:
      sink.Text(STRATA_VERSION).Char('\n');
      break;
  }
  bool ok = true;
  sink.Finish(&ok);
  if (error == nullptr && !ok) return "no memory for the answer";
  return error;
}

}  // namespace strata
