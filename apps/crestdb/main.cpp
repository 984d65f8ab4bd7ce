// CrestDB: a key-value store over the index structures of the HADES evaluation (Banakar et al.,
// "Tidying up the address space", DIMES 2025), to show what moving values does. docs/crestdb.md.
#include <cstdio>
#include <cstring>
#include <exception>
#include <string_view>

#include "bench.h"
#include "options.h"
#include "serve.h"
#include "store.h"

namespace {

constexpr char kHelp[] =
    R"(CrestDB, a key-value store over ten index structures, with values that Strata moves.

  crestdb structures
      the names of the structures, one a line
  crestdb bench [--structure NAME] [--ycsb A..F] [--keys N] [--value BYTES] [--seconds S]
                [--threads T] [--tidy on|off] [--json]
      loads N keys of 30 bytes with values, lets them run up, then measures for S seconds:
      operations_per_second; p90_us, the time within which 90 % of them end; resident_mib; and
      page_utilization, in percent: of the 4 KiB pages that hold values which were used while it
      was measured, how many of their bytes were
      --tidy on           values move: hot ones together, cold ones are paged out (needs swap)
      --distribution D    zipfian, uniform, latest, hotspot, twitter, twitter-flat, cachelib
      --theta X           of zipfian; 0.99 if not given
      --requests R        are drawn before the run and replayed in a loop; N / 10 if not given
      --fresh             each loop draws new ones
      --run-up S          at most; 30 if not given. Ends when nothing moves any more
      --window S          between two looks at what is used; 0.5 if not given
      --reclaim R         what becomes of cold pages: pageout, cold, pressure, cgroup, damon, none
      --then COMMAND      is run by the shell when it has run up, before it is measured
      --repeat            measures once for each line that it reads, from its standard input
      --map FILE          writes the pages that hold values, as CSV
      --target X          share of the used bytes that may be cold ones; 0.01 if not given
  crestdb serve [--structure NAME] [--port P] [--threads T] [--tidy on|off]
      a text protocol over TCP on 127.0.0.1: get KEY, set KEY BYTES, delete KEY, stats, quit
)";

int Structures() {
  for (const crest::StructureName& s : crest::Structures())
    printf("%.*s\n", static_cast<int>(s.name.size()), s.name.data());
  return 0;
}

int Run(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "--help";
  if (command == "--help" || command == "help" || command == "-h") {
    fputs(kHelp, stdout);
    return 0;
  }
  crest::Options options(argc - 2, argv + 2, "json fresh repeat help");
  if (options.Flag("help")) {
    fputs(kHelp, stdout);
    return 0;
  }
  if (command == "structures") {
    options.ExpectNoMore();
    return Structures();
  }
  if (command == "bench") return crest::RunBench(options);
  if (command == "serve") return crest::RunServer(options);
  throw crest::UsageError("there is no command '" + std::string(command) + "'; try --help");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const crest::UsageError& e) {
    fprintf(stderr, "crestdb: %s\n", e.what());
    return 2;
  } catch (const std::bad_alloc&) {
    fputs("crestdb: there is no memory left\n", stderr);
  } catch (const std::exception& e) {
    fprintf(stderr, "crestdb: %s\n", e.what());
  }
  return 1;
}
