// The options: each row with values that make sense and values that do not, names that are not
// ours, numbers at the edge of overflow, and what a process with raised rights honours.
#include "malloc/options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "malloc/option_table.h"

namespace strata {
namespace {

struct Read {
  std::shared_ptr<OptionTexts> texts = std::make_shared<OptionTexts>();
  Options options;
  std::string warnings;
  size_t lines() const {
    size_t n = 0;
    for (const char c : warnings) n += c == '\n';
    return n;
  }
};

Read ReadFrom(const std::vector<const char*>& assignments, Rights rights = Rights::kOfCaller) {
  std::vector<char*> environment;
  for (const char* a : assignments) environment.push_back(const_cast<char*>(a));
  environment.push_back(nullptr);
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const int saved = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  Read result;
  result.options = ReadOptions(environment.data(), rights, *result.texts);
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(ends[1]);
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;)
    result.warnings.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  return result;
}

bool Same(const Options& a, const Options& b) {
  return strcmp(a.stats, b.stats) == 0 && a.stats_interval_s == b.stats_interval_s &&
         a.cache == b.cache && a.release == b.release && a.hugepages == b.hugepages &&
         a.sparse_blocks == b.sparse_blocks && a.background == b.background &&
         a.verbose == b.verbose && a.on_error == b.on_error &&
         a.cpu_cache_bytes == b.cpu_cache_bytes && a.heap_limit == b.heap_limit &&
         a.soft_limit.kind == b.soft_limit.kind && a.soft_limit.value == b.soft_limit.value &&
         a.release_short_ms == b.release_short_ms && a.release_long_ms == b.release_long_ms &&
         a.release_peak_ms == b.release_peak_ms && a.release_idle_ms == b.release_idle_ms &&
         a.control == b.control && strcmp(a.prometheus, b.prometheus) == 0 &&
         strcmp(a.profile_path, b.profile_path) == 0 && a.profile_signal == b.profile_signal &&
         a.profile_interval_s == b.profile_interval_s;
}

TEST(Options, NothingSetMeansDefaultsInSilence) {
  OptionTexts texts{};
  EXPECT_TRUE(Same(ReadOptions(nullptr, Rights::kOfCaller, texts), Options{}));
  const Read r = ReadFrom({"PATH=/bin", "STRAT=1", "XSTRATA_RELEASE=off", "strata_release=off"});
  EXPECT_TRUE(Same(r.options, Options{}));
  EXPECT_EQ(r.warnings, "");
}

TEST(Options, GoodValues) {
  const Read r =
      ReadFrom({"STRATA_STATS=/tmp/s.json", "STRATA_STATS_INTERVAL=86400", "STRATA_CACHE=thread",
                "STRATA_CPU_CACHE_BYTES=2M", "STRATA_RELEASE=off", "STRATA_RELEASE_SHORT_MS=1",
                "STRATA_RELEASE_LONG_MS=3600000", "STRATA_RELEASE_PEAK_MS=25",
                "STRATA_RELEASE_IDLE_MS=400", "STRATA_HUGEPAGES=0", "STRATA_HEAP_LIMIT=3g",
                "STRATA_SPARSE_BLOCKS=off", "STRATA_ON_ERROR=ignore", "STRATA_VERBOSE=1"});
  EXPECT_EQ(r.warnings, "");
  EXPECT_STREQ(r.options.stats, "/tmp/s.json");
  EXPECT_EQ(r.options.stats_interval_s, 86400u);
  EXPECT_EQ(r.options.cache, CacheChoice::kThread);
  EXPECT_EQ(r.options.cpu_cache_bytes, 2u << 20);
  EXPECT_FALSE(r.options.release);
  EXPECT_EQ(r.options.release_short_ms, 1u);
  EXPECT_EQ(r.options.release_long_ms, 3'600'000u);
  EXPECT_EQ(r.options.release_peak_ms, 25u);
  EXPECT_EQ(r.options.release_idle_ms, 400u);
  EXPECT_FALSE(r.options.hugepages);
  EXPECT_FALSE(r.options.sparse_blocks);
  EXPECT_EQ(r.options.heap_limit, size_t{3} << 30);
  EXPECT_EQ(r.options.on_error, OnError::kIgnore);
  EXPECT_TRUE(r.options.verbose);
}

TEST(Options, OtherGoodValues) {
  std::vector<std::shared_ptr<OptionTexts>> kept;
  const auto of = [&kept](const char* a) {
    const Read r = ReadFrom({a});
    kept.push_back(r.texts);
    EXPECT_EQ(r.warnings, "") << a;
    return r.options;
  };
  EXPECT_EQ(of("STRATA_CACHE=cpu").cache, CacheChoice::kCpu);
  EXPECT_EQ(of("STRATA_CACHE=auto").cache, CacheChoice::kAuto);
  EXPECT_EQ(of("STRATA_ON_ERROR=abort").on_error, OnError::kAbort);
  EXPECT_EQ(of("STRATA_CONTROL=off").control, ControlChoice::kOff);
  EXPECT_EQ(of("STRATA_CONTROL=1").control, ControlChoice::kOn);
  EXPECT_EQ(of("STRATA_CONTROL=always").control, ControlChoice::kAlways);
  EXPECT_TRUE(of("STRATA_RELEASE=on").release);
  EXPECT_TRUE(of("STRATA_RELEASE=1").release);
  EXPECT_FALSE(of("STRATA_VERBOSE=off").verbose);
  EXPECT_FALSE(of("STRATA_BACKGROUND=off").background);
  EXPECT_STREQ(of("STRATA_STATS=exit").stats, "exit");
  EXPECT_EQ(of("STRATA_HEAP_LIMIT=0").heap_limit, 0u);
  EXPECT_EQ(of("STRATA_HEAP_LIMIT=12345").heap_limit, 12345u);
  EXPECT_EQ(of("STRATA_HEAP_LIMIT=7k").heap_limit, 7u << 10);
  EXPECT_EQ(of("STRATA_HEAP_LIMIT=7KiB").heap_limit, 7u << 10);
  EXPECT_EQ(of("STRATA_HEAP_LIMIT=7MB").heap_limit, 7u << 20);
  EXPECT_EQ(of("STRATA_HEAP_LIMIT=2T").heap_limit, size_t{2} << 40);
  EXPECT_EQ(of("STRATA_CPU_CACHE_BYTES=0").cpu_cache_bytes, 0u);
  EXPECT_EQ(of("STRATA_CPU_CACHE_BYTES=1G").cpu_cache_bytes, 1u << 30);
}

TEST(Options, EachNonsenseGetsOneLineAndTheDefault) {
  const char* const kBad[] = {"STRATA_STATS=",
                              "STRATA_STATS_INTERVAL=",
                              "STRATA_STATS_INTERVAL=-1",
                              "STRATA_STATS_INTERVAL=1.5",
                              "STRATA_STATS_INTERVAL=86401",
                              "STRATA_STATS_INTERVAL=1K",
                              "STRATA_CACHE=",
                              "STRATA_CACHE=CPU",
                              "STRATA_CACHE=threads",
                              "STRATA_CPU_CACHE_BYTES=lots",
                              "STRATA_CPU_CACHE_BYTES=1025M",
                              "STRATA_CPU_CACHE_BYTES= 1",
                              "STRATA_RELEASE=yes",
                              "STRATA_RELEASE=",
                              "STRATA_RELEASE=on ",
                              "STRATA_RELEASE_SHORT_MS=0",
                              "STRATA_RELEASE_LONG_MS=3600001",
                              "STRATA_RELEASE_PEAK_MS=x",
                              "STRATA_RELEASE_IDLE_MS=10s",
                              "STRATA_HUGEPAGES=2",
                              "STRATA_ADAPTIVE=maybe",
                              "STRATA_SPAN_PRIORITY=2",
                              "STRATA_LIFETIME_FILLER=",
                              "STRATA_CACHE_DOMAINS=on",
                              "STRATA_CACHE_DOMAINS=",
                              "STRATA_CACHE_DOMAINS=0-3;3-7",
                              "STRATA_CACHE_DOMAINS=0-3,4-7;",
                              "STRATA_HEAP_LIMIT=K",
                              "STRATA_HEAP_LIMIT=+1",
                              "STRATA_HEAP_LIMIT=1KK",
                              "STRATA_HEAP_LIMIT=1KiBs",
                              "STRATA_HEAP_LIMIT=1P",
                              "STRATA_HEAP_LIMIT=0x10",
                              "STRATA_BACKGROUND=true",
                              "STRATA_CONTROL=never",
                              "STRATA_PROMETHEUS=on",
                              "STRATA_PROFILE=heap",
                              "STRATA_PROFILE=hea:/x",
                              "STRATA_PROFILE=heap:",
                              "STRATA_PROFILE_SIGNAL=9",
                              "STRATA_PROFILE_SIGNAL=0",
                              "STRATA_PROFILE_SIGNAL=65",
                              "STRATA_PROFILE_SIGNAL=USR1",
                              "STRATA_ON_ERROR=Abort",
                              "STRATA_VERBOSE=3"};
  for (const char* bad : kBad) {
    SCOPED_TRACE(bad);
    const Read r = ReadFrom({bad});
    EXPECT_EQ(r.lines(), 1u) << r.warnings;
    EXPECT_EQ(r.warnings.rfind(std::string("strata: ") + bad + " makes no sense; it takes ", 0), 0u)
        << r.warnings;
    EXPECT_NE(r.warnings.find("; using "), std::string::npos);
    EXPECT_TRUE(Same(r.options, Options{}));
  }
}

TEST(Options, CacheDomainsAreAWordOrListsOfCpus) {
  EXPECT_EQ(
      TopologyOf(ReadFrom({"STRATA_CACHE_DOMAINS=0-3,8-11;4-7"}).options.cache_domains).domains,
      2u);
  EXPECT_EQ(TopologyOf(ReadFrom({"STRATA_CACHE_DOMAINS=off"}).options.cache_domains).domains, 0u);
  EXPECT_EQ(std::string(ReadFrom({"STRATA_CACHE_DOMAINS=auto"}).options.cache_domains), "auto");
  const std::string wide = "STRATA_CACHE_DOMAINS=" + std::string(600, '0');
  EXPECT_EQ(ReadFrom({wide.c_str()}).lines(), 1u);
}

TEST(Options, ProfileAndItsSignal) {
  const Read both = ReadFrom({"STRATA_PROFILE=lifetime:/tmp/a:b", "STRATA_PROFILE_SIGNAL=10"});
  EXPECT_EQ(both.warnings, "");
  EXPECT_STREQ(both.options.profile_kind, "lifetime");
  EXPECT_STREQ(both.options.profile_path, "/tmp/a:b");
  EXPECT_EQ(both.options.profile_signal, 10);
  const Read twice = ReadFrom({"STRATA_PROFILE=lifetime:/tmp/a", "STRATA_PROFILE=none:/tmp/b"});
  EXPECT_STREQ(twice.options.profile_kind, "lifetime");
  EXPECT_STREQ(twice.options.profile_path, "/tmp/a");
  const Read alone = ReadFrom({"STRATA_PROFILE_SIGNAL=10"});
  EXPECT_EQ(alone.lines(), 1u);
  EXPECT_EQ(alone.options.profile_signal, 0);
  const Read secure = ReadFrom(
      {"STRATA_PROFILE=heap:/tmp/a", "STRATA_PROMETHEUS=/tmp/b", "STRATA_PROFILE_INTERVAL=60"},
      Rights::kBeyondCaller);
  EXPECT_STREQ(secure.options.profile_path, "");
  EXPECT_EQ(secure.options.profile_interval_s, 0u);
  EXPECT_STREQ(secure.options.prometheus, "");
}

TEST(Options, PrometheusHasAnIntervalOfItsOwn) {
  EXPECT_EQ(ReadFrom({"STRATA_PROMETHEUS=/tmp/x"}).options.stats_interval_s, 15u);
  const Read r = ReadFrom({"STRATA_PROMETHEUS=/tmp/x", "STRATA_STATS_INTERVAL=3"});
  EXPECT_EQ(r.warnings, "");
  EXPECT_EQ(r.options.stats_interval_s, 3u);
}

TEST(Options, NumbersAtTheEdgeOfOverflow) {
  EXPECT_EQ(ReadFrom({"STRATA_HEAP_LIMIT=18446744073709551615"}).options.heap_limit, SIZE_MAX);
  EXPECT_EQ(ReadFrom({"STRATA_HEAP_LIMIT=16777215T"}).options.heap_limit,
            SIZE_MAX - (1ull << 40) + 1);
  for (const char* over :
       {"STRATA_HEAP_LIMIT=18446744073709551616", "STRATA_HEAP_LIMIT=99999999999999999999",
        "STRATA_HEAP_LIMIT=16777216T", "STRATA_HEAP_LIMIT=18014398509481984K",
        "STRATA_HEAP_LIMIT=184467440737095516150"}) {
    const Read r = ReadFrom({over});
    EXPECT_EQ(r.options.heap_limit, 0u) << over;
    EXPECT_EQ(r.lines(), 1u) << over;
  }
  // Leading zeros are no overflow.
  EXPECT_EQ(ReadFrom({"STRATA_HEAP_LIMIT=00000000000000000000000001"}).options.heap_limit, 1u);
}

TEST(Options, UnknownNamesGetOneLineEach) {
  const Read r = ReadFrom(
      {"STRATA_RELAESE=off", "STRATA_=1", "STRATA_STATSX=1", "STRATA_STAT=1", "STRATA_RELEASE"});
  EXPECT_EQ(r.lines(), 5u) << r.warnings;
  EXPECT_EQ(r.warnings.rfind("strata: unknown option STRATA_RELAESE ignored\n", 0), 0u);
  EXPECT_TRUE(Same(r.options, Options{}));
  const std::string name = "STRATA_" + std::string(5000, 'A') + "=1";
  const Read wide = ReadFrom({name.c_str()});
  EXPECT_EQ(wide.lines(), 1u);
  EXPECT_LT(wide.warnings.size(), 200u);
}

TEST(Options, ALongValueIsCutInTheWarning) {
  const std::string bad = "STRATA_RELEASE=" + std::string(5000, 'y');
  const Read r = ReadFrom({bad.c_str()});
  EXPECT_EQ(r.lines(), 1u);
  EXPECT_LE(r.warnings.size(), 400u);
}

TEST(Options, ABadValueLeavesAnEarlierGoodOne) {
  const Read r = ReadFrom({"STRATA_CACHE=thread", "STRATA_HEAP_LIMIT=nonsense"});
  EXPECT_EQ(r.options.cache, CacheChoice::kThread);
  EXPECT_EQ(r.options.heap_limit, 0u);
}

TEST(Options, APresetSetsWhatNobodyElseSets) {
  const Options memory = ReadFrom({"STRATA_PRESET=memory"}).options;
  EXPECT_EQ(memory.release_short_ms, 1000u);
  EXPECT_EQ(memory.cpu_cache_bytes, 256u << 10);
  const Options speed = ReadFrom({"STRATA_PRESET=speed"}).options;
  EXPECT_FALSE(speed.release);
  EXPECT_TRUE(speed.background);
  EXPECT_EQ(speed.cpu_cache_bytes, 4u << 20);
  const Options latency = ReadFrom({"STRATA_PRESET=latency"}).options;
  EXPECT_FALSE(latency.release || latency.background);
  EXPECT_EQ(latency.sample_interval, 0u);
  EXPECT_STREQ(ReadFrom({"STRATA_PRESET=debug"}).options.stats, "exit");
  for (const char* preset : {"memory", "speed", "latency", "debug"}) {
    const std::string word = std::string("STRATA_PRESET=") + preset;
    // Before and behind it.
    const Read r = ReadFrom({"STRATA_CPU_CACHE_BYTES=3M", word.c_str(), "STRATA_SAMPLE=1M"});
    EXPECT_EQ(r.options.cpu_cache_bytes, 3u << 20) << preset;
    EXPECT_EQ(r.options.sample_interval, 1u << 20) << preset;
    EXPECT_EQ(r.warnings, "") << preset;
  }
}

TEST(Options, APresetThatIsNoneGetsOneLine) {
  for (const char* word : {"STRATA_PRESET=", "STRATA_PRESET=fast", "STRATA_PRESET=memory,speed"}) {
    const Read r = ReadFrom({word});
    EXPECT_EQ(r.lines(), 1u) << word;
    EXPECT_TRUE(Same(r.options, Options{})) << word;
  }
}

TEST(Options, RaisedRightsWriteNoFiles) {
  const Read r =
      ReadFrom({"STRATA_STATS=/etc/passwd", "STRATA_STATS_INTERVAL=1", "STRATA_RELEASE=off"},
               Rights::kBeyondCaller);
  EXPECT_STREQ(r.options.stats, "");
  EXPECT_EQ(r.options.stats_interval_s, 0u);
  EXPECT_FALSE(r.options.release);
}

TEST(Options, RaisedRightsLetNobodyInAndHoldNoLimitOfTheCallers) {
  for (const char* control : {"PATH=/bin", "STRATA_CONTROL=on", "STRATA_CONTROL=always"})
    EXPECT_EQ(ReadFrom({control}, Rights::kBeyondCaller).options.control, ControlChoice::kOff)
        << control;
  const Read r = ReadFrom({"STRATA_HEAP_LIMIT=1M", "STRATA_ON_ERROR=ignore", "STRATA_SAMPLE=1"},
                          Rights::kBeyondCaller);
  EXPECT_EQ(r.options.sample_interval, kDefaultSampleInterval);
  EXPECT_EQ(r.options.heap_limit, 0u);
  EXPECT_EQ(r.options.on_error, OnError::kAbort);
}

TEST(Options, RaisedRightsReadNoModelOfTheCallersAndSayNothing) {
  const Read r =
      ReadFrom({"STRATA_LIFETIMES=model", "STRATA_MODEL=/tmp/model"}, Rights::kBeyondCaller);
  EXPECT_STREQ(r.options.model, "");
  EXPECT_EQ(r.options.lifetimes, LifetimeChoice::kOff);
  EXPECT_EQ(r.lines(), 0u);
}

TEST(Options, ChecksGuardMoreUnlessTheEnvironmentSaysHowMuch) {
  EXPECT_NE(ReadFrom({"STRATA_CHECK=on"}).options.guard_every, kDefaultGuardEvery);
  EXPECT_EQ(ReadFrom({"STRATA_CHECK=on", "STRATA_GUARD=1/7"}).options.guard_every, 7u);
  EXPECT_EQ(ReadFrom({"STRATA_GUARD=off", "STRATA_CHECK=on"}).options.guard_every, 0u);
}

TEST(Options, APathTooLongIsNonsense) {
  const std::string path = "STRATA_STATS=/" + std::string(sizeof(OptionTexts::stats), 'p');
  const Read r = ReadFrom({path.c_str()});
  EXPECT_EQ(r.lines(), 1u);
  EXPECT_STREQ(r.options.stats, "");
  const std::string fits = "STRATA_STATS=" + std::string(sizeof(OptionTexts::stats) - 1, 'p');
  EXPECT_EQ(strlen(ReadFrom({fits.c_str()}).options.stats), sizeof(OptionTexts::stats) - 1);
}

TEST(Options, AnIntervalNeedsAFile) {
  // Nothing to rewrite: the background thread must not be given an interval without a path.
  const Read none = ReadFrom({"STRATA_STATS_INTERVAL=1"});
  EXPECT_EQ(none.options.stats_interval_s, 0u);
  EXPECT_EQ(none.lines(), 1u) << none.warnings;
  const Read at_exit = ReadFrom({"STRATA_STATS_INTERVAL=1", "STRATA_STATS=exit"});
  EXPECT_EQ(at_exit.options.stats_interval_s, 0u);
  EXPECT_STREQ(at_exit.options.stats, "exit");
  EXPECT_EQ(at_exit.lines(), 1u) << at_exit.warnings;
  const Read profile = ReadFrom({"STRATA_PROFILE_INTERVAL=1"});
  EXPECT_EQ(profile.options.profile_interval_s, 0u);
  EXPECT_EQ(profile.lines(), 1u) << profile.warnings;
  const Read rewritten = ReadFrom({"STRATA_PROFILE_INTERVAL=1", "STRATA_PROFILE=lifetime:x"});
  EXPECT_EQ(rewritten.options.profile_interval_s, 1u);
  EXPECT_EQ(rewritten.warnings, "");
  const Read file = ReadFrom({"STRATA_STATS_INTERVAL=1", "STRATA_STATS=x"});
  EXPECT_EQ(file.options.stats_interval_s, 1u);
  EXPECT_EQ(file.warnings, "");
}

TEST(Options, EveryRowSaysWhatItIs) {
  std::vector<OptionRow> rows;
  const auto keep = [](void* to, const OptionRow& row) {
    static_cast<std::vector<OptionRow>*>(to)->push_back(row);
    return false;
  };
  EXPECT_FALSE(VisitOptions(keep, &rows));
  ASSERT_GE(rows.size(), 14u);
  std::set<std::string> names;
  for (const OptionRow& row : rows) {
    SCOPED_TRACE(row.name);
    EXPECT_TRUE(names.insert(row.name).second);
    EXPECT_GT(strlen(row.takes), 0u);
    EXPECT_GT(strlen(row.fallback), 0u);
    EXPECT_GT(strlen(row.help), 20u);
    ASSERT_NE(row.parse, nullptr);
    OptionTexts texts;
    Options o;
    o.texts = &texts;
    EXPECT_FALSE(row.parse("", o));  // nothing takes an empty value
  }
}

TEST(Options, SoftLimit) {
  using Kind = SoftLimitSetting::Kind;
  const auto is = [](const char* text, Kind kind, size_t value) {
    SoftLimitSetting soft{Kind::kBytes, 7};
    return ParseSoftLimit(text, soft) && soft.kind == kind && soft.value == value;
  };
  EXPECT_TRUE(is("off", Kind::kOff, 0));
  EXPECT_TRUE(is("80%", Kind::kPercent, 80));
  EXPECT_TRUE(is("100%", Kind::kPercent, 100));
  EXPECT_TRUE(is("1%", Kind::kPercent, 1));
  EXPECT_TRUE(is("3G", Kind::kBytes, size_t{3} << 30));
  for (const char* bad : {"", "%", "0%", "101%", "-1%", "1000%", "99999%", "8 %", "on", "0", "K",
                          "1%%", "80%x", "2E", "18446744073709551615"}) {
    SoftLimitSetting soft{Kind::kBytes, 7};
    EXPECT_FALSE(ParseSoftLimit(bad, soft)) << bad;
    EXPECT_EQ(soft.value, 7u) << bad;
  }
  EXPECT_EQ(ReadFrom({"STRATA_SOFT_LIMIT=70%"}).options.soft_limit.value, 70u);
  EXPECT_NE(ReadFrom({"STRATA_SOFT_LIMIT=0"}).warnings, "");
}

}  // namespace
}  // namespace strata
