// A load on SQLite, linked with one version or another of it, so that a model of one can be tested
// on the other: a database in memory that grows, statements that are prepared once or each time,
// sorts and groups of all sizes, and connections that come and go.
//   sqlite_load [--quick=1] [--scale=1] [--rest=1]
#include <sqlite3.h>

#include <string>
#include <vector>

#include "../loads/phases.h"

namespace {

constexpr uint64_t kRowsARound = 2000;
constexpr uint64_t kFiles = 8;

class Database {
 public:
  explicit Database(const char* name) {
    if (sqlite3_open(name, &handle_) != SQLITE_OK) bench::Die("cannot open a database");
  }
  ~Database() { sqlite3_close(handle_); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void Run(const std::string& sql) {
    if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
      bench::Die(sqlite3_errmsg(handle_));
  }

  sqlite3_stmt* Prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(handle_, sql, -1, &statement, nullptr) != SQLITE_OK)
      bench::Die(sqlite3_errmsg(handle_));
    return statement;
  }

 private:
  sqlite3* handle_ = nullptr;
};

uint64_t StepAll(sqlite3_stmt* statement) {
  uint64_t rows = 0;
  while (sqlite3_step(statement) == SQLITE_ROW) ++rows;
  return rows;
}

std::string TextOf(bench::Random& random) {
  std::string text;
  for (uint64_t words = random.Between(2, 60); words != 0; --words) {
    text += "word" + std::to_string(random.Below(5000)) + ' ';
  }
  return text;
}

// New rows; a tenth of the old ones go.
void Insert(Database& database, sqlite3_stmt* insert, bench::Random& random) {
  database.Run("BEGIN");
  for (uint64_t row = 0; row < kRowsARound; ++row) {
    const std::string text = TextOf(random);
    sqlite3_bind_int64(insert, 1, static_cast<sqlite3_int64>(random.Below(100'000)));
    sqlite3_bind_text(insert, 2, text.c_str(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
    sqlite3_bind_double(insert, 3, static_cast<double>(random.Below(1'000'000)) / 7);
    StepAll(insert);
    sqlite3_reset(insert);
  }
  database.Run("DELETE FROM item WHERE id % 10 = " + std::to_string(random.Below(10)));
  database.Run("COMMIT");
}

uint64_t Ask(Database& database, bench::Random& random) {
  const char* questions[] = {
      "SELECT owner, count(*), sum(price) FROM item GROUP BY owner % 500",
      "SELECT upper(text) FROM item ORDER BY price DESC LIMIT 2000",
      "SELECT group_concat(text) FROM item WHERE id % 40 = 3 GROUP BY owner % 20",
      "SELECT a.id FROM item a JOIN item b ON a.owner = b.id WHERE a.id % 7 = 1",
      "SELECT text FROM item WHERE text LIKE '%word17 %' LIMIT 300",
  };
  sqlite3_stmt* statement = database.Prepare(questions[random.Below(5)]);
  const uint64_t rows = StepAll(statement);
  sqlite3_finalize(statement);
  return rows;
}

void ComeAndGo(bench::Random& random) {
  Database database(":memory:");
  database.Run("CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)");
  sqlite3_stmt* insert = database.Prepare("INSERT INTO note (text) VALUES (?)");
  for (int row = 0; row < 100; ++row) {
    const std::string text = TextOf(random);
    sqlite3_bind_text(insert, 1, text.c_str(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
    StepAll(insert);
    sqlite3_reset(insert);
  }
  sqlite3_finalize(insert);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const bool quick = options.Count("quick", 0) != 0;
  const auto rounds = static_cast<uint64_t>(options.Scaled("rounds", quick ? 6 : 120));
  const double rest = options.Number("rest", quick ? 0.2 : 1);
  options.RejectUnknown();
  if (rounds == 0) bench::Die("--rounds above zero");

  bench::Phases phases("sqlite_load");
  bench::Random random(17);
  uint64_t rows = 0;
  {
    Database database(":memory:");
    database.Run(
        "CREATE TABLE item (id INTEGER PRIMARY KEY, owner INTEGER, text TEXT, price REAL);"
        "CREATE INDEX item_owner ON item (owner)");
    sqlite3_stmt* insert =
        database.Prepare("INSERT INTO item (owner, text, price) VALUES (?, ?, ?)");
    phases.Begin("load", true);
    for (uint64_t round = 0; round < rounds; ++round) {
      Insert(database, insert, random);
      for (int question = 0; question < 4; ++question) rows += Ask(database, random);
      for (uint64_t i = 0; i < kFiles; ++i) ComeAndGo(random);
      phases.Worked(kRowsARound);
    }
    phases.Rest(rest);
    sqlite3_finalize(insert);
  }

  bench::Report report(phases.program());
  report.Add("sqlite=%s rows=%llu", sqlite3_libversion(), static_cast<unsigned long long>(rows));
  phases.AddTo(report);
  report.Finish();
  return 0;
}
